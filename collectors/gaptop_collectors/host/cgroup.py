"""What keeps the server from the CPU: quotas of its cgroup, and how busy and pressed the whole host is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import Batch, Delivered, Message, SourceInfo
from gaptop_collectors.engines.address import split_address
from gaptop_collectors.host.cgroup_files import Place, places, throttled_seconds
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import Processes, ServerProcess

_PROC: Final = Path("/proc")
_LOOK_AGAIN_NS: Final = 30_000_000_000
_NO_QUOTA: Final = "no CPU quota applies to the server's cgroup, so it cannot be throttled"
_NO_PRESSURE: Final = "this kernel tells no CPU pressure (CONFIG_PSI off, or psi=0 at boot)"


class Cgroup:
    """The collector. Its sources are ``cgroup/URL`` (throttling) and ``host``; of several servers' collectors only one
    may speak for the host, the others are made with ``host=False``.
    """

    name = "host.cgroup"
    period = 1.0
    deadline = 0.5

    def __init__(self, processes: Processes, url: str | None = None, *, host: bool = True, proc: Path = _PROC) -> None:
        self._processes = processes
        self._source = f"cgroup/{split_address(url)[0]}" if url else "cgroup/server"
        self._host = host
        self._proc = proc
        self._infos: dict[str, SourceInfo] = {}
        self._ticks: tuple[int, int] | None = None
        self._placed: tuple[ServerProcess, int, Sequence[Place]] | None = None

    def open(self) -> Sequence[Message]:
        self._infos.clear()
        self._ticks = _ticks(self._proc)
        return ()

    def sample(self) -> Sequence[Message]:
        out = self._throttling(time.monotonic_ns())
        if self._host:
            out += self._whole_host(time.monotonic_ns())
        return out

    def boost(self, seconds: float) -> None:
        """Nothing to gain: these are counters, whose increments are exact at any period."""

    def close(self) -> None:
        self._infos.clear()

    def _throttling(self, now: int) -> list[Message]:
        current = self._processes.current()
        seconds, why = None, self._processes.why_empty() if not current else _NO_QUOTA
        if current:
            try:
                found = [throttled_seconds(place) for place in self._places_of(current[0], now)]
                known = [value for value in found if value is not None]
                seconds = sum(known) if known else None
            except (OSError, ValueError) as error:
                why = f"the server's cgroup cannot be read ({error})"
        signals = ("host.throttled",) if seconds is not None else ()
        missing = {} if seconds is not None else {"host.throttled": why}
        values: dict[str, list[float | None]] = {} if seconds is None else {"host.throttled": [seconds]}
        return self._emit(self._source, now, signals, missing, values)

    def _places_of(self, process: ServerProcess, now: int) -> Sequence[Place]:
        """Processes are rarely moved between groups: looked up again every half minute."""
        if self._placed is None or self._placed[0] != process or now - self._placed[1] > _LOOK_AGAIN_NS:
            self._placed = (process, now, places(process.pid, self._proc))
        return self._placed[2]

    def _whole_host(self, now: int) -> list[Message]:
        values: dict[str, list[float | None]] = {}
        missing: dict[str, str] = {}
        stalled = _stalled(self._proc)
        if stalled is None:
            missing["host.pressure"] = _NO_PRESSURE
        else:
            values[series_key("host.pressure", resource="cpu")] = [stalled]
        before, self._ticks = self._ticks, _ticks(self._proc)
        if self._ticks is None:
            missing["host.busy"] = "/proc/stat cannot be read"
        elif before is not None and self._ticks[1] > before[1]:
            values["host.busy"] = [(self._ticks[0] - before[0]) / (self._ticks[1] - before[1])]
        signals = tuple(name for name in ("host.busy", "host.pressure") if name not in missing)
        return self._emit("host", now, signals, missing, values)

    def _emit(
        self,
        source: str,
        now: int,
        signals: Sequence[str],
        missing: dict[str, str],
        values: dict[str, list[float | None]],
    ) -> list[Message]:
        info = SourceInfo(
            source=source,
            collector=self.name,
            kind="host",
            entity={"cores": os.cpu_count()},
            signals=signals,
            period=self.period,
            unsupported=missing,
            window=self.period,
            error=0.01,
            refresh="scrape",
        )
        out: list[Message] = []
        if self._infos.get(source) != info:
            self._infos[source] = info
            out.append(info)
        if values:
            out.append(Batch(source, [now], values))
        out.append(Delivered(source, now))
        return out


def _stalled(proc: Path) -> float | None:
    """Seconds that some task waited for a CPU since boot, from the pressure stall information."""
    try:
        text = (proc / "pressure/cpu").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) * 1e-6
    return None


def _ticks(proc: Path) -> tuple[int, int] | None:
    """Clock ticks of all cores together: with work, and in all. Time stolen by a hypervisor is no work of ours."""
    try:
        with open(proc / "stat", encoding="ascii") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, idle, waiting, irq, softirq, stolen = [*fields, *[0] * (8 - len(fields))]
    work = user + nice + system + irq + softirq
    return work, work + idle + waiting + stolen
