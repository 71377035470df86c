"""A dcgm-exporter on loopback: collects on a timer of its own and serves the same text until the next collection.

As a program: ``python -m tests.fakes.dcgm [-c MS]`` prints its port, then serves until it is killed. Its one GPU is
busy but for IDLE_S seconds from each SIGUSR1 on; its profiling fields are means over each collection period.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.fakes.endpoint import Site

IDLE_S = 6.0
UUID = "GPU-12345678-cafe-0000-0000-000000000001"
LABELS = f'gpu="0",UUID="{UUID}",pci_bus_id="00000000:17:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'


def exposition(values: Mapping[str, float | str], labels: str = LABELS, host: str = 'hostname="node"') -> str:
    """One GPU's body, as the exporter prints it."""
    lines = []
    for name, value in values.items():
        kind = "counter" if name.endswith(("CONSUMPTION", "VIOLATION", "_TOTAL")) else "gauge"
        shown = f"{value:f}" if isinstance(value, float) else str(value)
        lines += [f"# HELP {name} Text.", f"# TYPE {name} {kind}", f"{name}{{{labels},{host}}} {shown}"]
    return "\n".join(lines) + "\n"


class Exporter:
    """``body(start, end)`` makes the text of one collection from the seconds that it covers since the first scrape."""

    def __init__(self, period: float, body: Callable[[float, float], str]) -> None:
        self._period = period
        self._body = body
        self._lock = threading.Lock()
        self._begun: float | None = None
        self._count = -1
        self._text = ""
        self.site = Site({"/metrics": self._answer})

    def seconds(self) -> float:
        """Since the first scrape."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun

    def __enter__(self) -> Self:
        self.site.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.site.__exit__(kind, error, trace)

    def _answer(self, request: Any) -> Any:
        from aiohttp import web

        with self._lock:
            now = time.monotonic()
            if self._begun is None:
                self._begun = now
            count = int((now - self._begun) / self._period)
            if count > self._count:
                self._count = count
                self._text = self._body((count - 1) * self._period, count * self._period)
            return web.Response(text=self._text)


def h100(idle: Sequence[tuple[float, float]], *, profiling: bool = True) -> Callable[[float, float], str]:
    """A body that is busy except in the idle intervals."""

    def body(start: float, end: float) -> str:
        lost = sum(max(0.0, min(end, to) - max(start, since)) for since, to in idle)
        # The last digits of a mean are never twice the same on a GPU that works.
        active = (0.97 + round(end) % 9 * 1e-6) * (1 - lost / (end - start))
        last = 0 if any(since < end <= to for since, to in idle) else 97
        values: dict[str, float | str] = {
            "DCGM_FI_DEV_GPU_UTIL": last,
            "DCGM_FI_DEV_POWER_USAGE": 90.0 + 500 * active,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(5e9 + end * 4e5),
            "DCGM_FI_DEV_SM_CLOCK": 1980,
            "DCGM_FI_DEV_FB_USED": 71000,
        }
        if profiling:
            values["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] = active
            values["DCGM_FI_PROF_DRAM_ACTIVE"] = active / 2
        return exposition(values)

    return body


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-c", type=int, default=30000, help="collection period in milliseconds")
    parser.add_argument("--no-profiling", action="store_true")
    given = parser.parse_args()
    idle: list[tuple[float, float]] = []
    with Exporter(given.c / 1000, h100(idle, profiling=not given.no_profiling)) as exporter:
        signal.signal(signal.SIGUSR1, lambda *_: idle.append((exporter.seconds(), exporter.seconds() + IDLE_S)))
        print(exporter.site.port, flush=True)
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
