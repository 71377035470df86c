"""Whether short gaps of a device are found: 300 ms each two seconds, at random phase to NVML's windows of 200 ms.

The device is a stand-in for libnvidia-ml.so.1 under the unmodified binding: each of its windows holds the true share of
time that was busy, in whole per cents. Eight devices run side by side, each with gaps of its own; only the probe and
the analysis run. In virtual time, five minutes long and at more windows: tests/devices_truth/test_truth_found.py.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from gaptop.recording.lines import Batch, Line, decode
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Valley
from tests.benchmarks.table import Row, missing
from tests.devices_truth.boxcar import around
from tests.fakes.nvml.build import NoCompiler, environment

_WINDOW: Final = 0.2
_GAP: Final = 0.3
_EACH: Final = 2.0
_SECONDS: Final = 34
_DEVICES: Final = 8
_LEAD: Final = 8.0
"""Seconds before the first gap: W is measured, and the level of a busy device is learnt."""
_WHAT: Final = "300 ms device gaps, one in 2 s"
_SHIFT: Final = 1.0
"""The stream begins so many seconds before the first window."""
Gaps = list[tuple[float, float]]


class _Judge:
    """One device, analysed alone: in a real server devices stop together, here each has gaps of its own."""

    def __init__(self, source: str) -> None:
        self.readings: list[tuple[float, float]] = []
        self._source = source
        self._timeline = Timeline(None)
        self.analyst = Analyst(self._timeline)

    def apply(self, line: Line) -> None:
        if getattr(line, "src", getattr(line, "id", self._source)) != self._source:
            return
        self._timeline.apply(line)
        self.analyst.apply(line)
        if isinstance(line, Batch):
            busy = line.values.get("device.busy", [])
            self.readings += [(t, value) for t, value in zip(line.t, busy, strict=False) if value is not None]


def main() -> list[Row]:
    """Rows for the table."""
    chance = random.Random(7)
    made = {f"GPU-{index}": _gaps(chance) for index in range(_DEVICES)}
    start = time.monotonic_ns() + round(_SHIFT * 1e9)
    devices = [
        {"uuid": uuid, "name": uuid, "intervals": around(gaps, _SECONDS + 4), "watts": (100, 300)}
        for uuid, gaps in made.items()
    ]
    try:
        variables = environment({"start_ns": start, "clock": "monotonic", "devices": devices})
    except NoCompiler as error:
        return [missing(_WHAT, str(error))]
    judged = {uuid: _Judge(f"nvml/{uuid}") for uuid in made}
    for line in _stream(os.environ | variables, start - round(_SHIFT * 1e9)):
        for judge in judged.values():
            judge.apply(line)
    seen, named = [], []
    for uuid, gaps in made.items():
        valleys = judged[uuid].analyst.finish().valleys
        for begin, end in gaps:
            gap = begin + _SHIFT, end + _SHIFT
            seen.append(_dips(gap, judged[uuid].readings))
            named.append(_told(gap, valleys))
    return [
        _found(f"{_WHAT}: seen as a dip in busy", seen),
        _found(f"{_WHAT}: told as a valley", named),
    ]


def _found(what: str, found: list[bool]) -> Row:
    share = sum(found) / len(found)
    return what, f"{sum(found)} of {len(found)} ({share:.1%})", "≥ 99%", share >= 0.99


def _gaps(chance: random.Random) -> Gaps:
    """Seconds since the first window began."""
    begins = [at + chance.uniform(0.2, _EACH - _GAP - 0.2) for at in _steps(_LEAD, _SECONDS)]
    return [(begin, begin + _GAP) for begin in begins]


def _steps(first: float, last: float) -> Iterator[float]:
    while first + _EACH <= last:
        yield first
        first += _EACH


def _dips(gap: tuple[float, float], readings: list[tuple[float, float]]) -> bool:
    return any(gap[0] < t < gap[1] + 2 * _WINDOW and value <= 0.7 for t, value in readings)


def _told(gap: tuple[float, float], valleys: Sequence[Valley]) -> bool:
    until = gap[1] + _WINDOW
    return any(valley.start_s < until and (valley.end_s is None or valley.end_s > gap[0]) for valley in valleys)


def _stream(variables: dict[str, str], origin: int) -> Iterator[Line]:
    """What a probe that only reads the device says."""
    config = {"origin_ns": origin, "gpu": True, "host": False, "threads": "off", "duration": _SECONDS + 3.0}
    probe = subprocess.Popen(
        [sys.executable, "-m", "gaptop.probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
    )
    assert probe.stdin is not None
    assert probe.stdout is not None
    probe.stdin.write(json.dumps(config).encode() + b"\n")
    probe.stdin.flush()
    with probe, probe.stdin:
        for raw in probe.stdout:
            if (line := decode(raw)) is not None:
                yield line


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
