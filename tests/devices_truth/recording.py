"""Public recordings of real cards (GPU_Power_Benchmark, MIT): nvidia-smi asked each 7-14 ms, and true kernel times.

A reading holds until the driver has the next window's, so a value that stays may be one window or twenty. Where it
changes is where a window ended; ``rebuild`` counts the windows in between.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest

FOLDER: Final = Path(__file__).parents[3] / "shared" / "data" / "gpu_power"
FITTING: Final = 0.9
SLACK: Final = 0.001
"""Seconds: nvidia-smi's stamps are whole milliseconds. No recorded change needs more."""
SHORTEST: Final = 0.1
STEP: Final = 0.0005


class Row(NamedTuple):
    """One line of nvidia-smi: UTC seconds as that host's clock had them, per cent, watts."""

    t: float
    percent: int
    watts: float


class Change(NamedTuple):
    """The reading became ``percent`` after ``low`` and not later than ``high`` (seconds)."""

    low: float
    high: float
    percent: int


class Window(NamedTuple):
    """One window of the driver: when its reading was out (seconds), per cent, watts at that moment."""

    t: float
    percent: int
    watts: float


class Rebuilt(NamedTuple):
    period: float
    windows: list[Window]


def rows(name: str) -> list[Row]:
    """A recording by its name; skips the test where it is not at hand."""
    lines = list(csv.reader(_text(f"{name}_gpudata.csv.gz").splitlines(), skipinitialspace=True))
    names = [column.partition(" [")[0] for column in lines[0]]
    power = "power.draw.instant" if "power.draw.instant" in names else "power.draw"
    stamp, busy, watts = names.index("timestamp"), names.index("utilization.gpu"), names.index(power)
    return [Row(_seconds(line[stamp]), int(line[busy]), float(line[watts])) for line in lines[1:]]


def kernels(name: str) -> list[tuple[float, float]]:
    """When kernels ran (seconds, by the same clock as the rows once ``same_hour`` has moved them)."""
    stamps = [int(text) / 1e6 for text in _text(f"{name}_timestamps.csv.gz").split()[1:]]
    edges = stamps[::2]  # each edge stands there twice
    return list(zip(edges[::2], edges[1::2], strict=False))


def same_hour(intervals: Sequence[tuple[float, float]], first: float) -> list[tuple[float, float]]:
    """The intervals moved by whole hours to where the rows begin: nvidia-smi wrote local time, the program UTC."""
    shift = 3600 * round((first - intervals[0][0]) / 3600)
    return [(start + shift, end + shift) for start, end in intervals]


def changes(readings: Sequence[Row]) -> list[Change]:
    """Where the reading changed: between which two rows, and to what."""
    return [
        Change(before.t, after.t, after.percent)
        for before, after in pairwise(readings)
        if before.percent != after.percent
    ]


def period_of(found: Sequence[Change]) -> float:
    """Seconds: the longest period of which FITTING of the distances between changes can be whole multiples.

    The search is coarse, as each change is known to within one poll only; all of them together then say it finely.
    """
    pairs = list(pairwise(found))
    spans = sorted(second.high - first.low for first, second in pairs)
    longest = spans[round((1 - FITTING) * (len(spans) - 1))] + SLACK
    for index in range(round((longest - SHORTEST) / STEP) + 1):
        period = longest - index * STEP
        if sum(_fits(first, second, period) for first, second in pairs) >= FITTING * len(pairs):
            counts = [_count(first, second, period) for first, second in pairs]
            return (found[-1].high - found[0].high) / sum(counts)
    raise ValueError("the changes lie on no grid")


def rebuild(readings: Sequence[Row], period: float | None = None) -> Rebuilt:
    """The driver's windows behind polled readings, ``period`` being known or found from where they change.

    Between two changes lie as many windows as fit, evenly; each change begins counting anew, because a real driver's
    grid slips (the V100's by 30 ms about each minute).
    """
    found = changes(readings)
    period = period_of(found) if period is None else period
    windows: list[tuple[float, int]] = []
    before = round((found[0].high - readings[0].t) / period)
    windows += [(found[0].high - back * period, readings[0].percent) for back in range(before, 0, -1)]
    for first, second in pairwise(found):
        count = _count(first, second, period)
        step = (second.high - first.high) / count
        windows += [(first.high + index * step, first.percent) for index in range(count)]
    after = int((readings[-1].t - found[-1].high) / period) + 1
    windows += [(found[-1].high + index * period, found[-1].percent) for index in range(after)]
    watts = _held(readings, [t for t, _ in windows])
    return Rebuilt(period, [Window(t, percent, w) for (t, percent), w in zip(windows, watts, strict=True)])


def _count(first: Change, second: Change, period: float) -> int:
    return max(1, round((second.high - first.high) / period))


def _fits(first: Change, second: Change, period: float) -> bool:
    nearest = _count(first, second, period) * period
    return second.low - first.high - SLACK <= nearest <= second.high - first.low + SLACK


def _held(readings: Sequence[Row], times: Sequence[float]) -> list[float]:
    """The power last read at each of the times (ascending); the first one before there was any."""
    found, index = [], 0
    for t in times:
        while index + 1 < len(readings) and readings[index + 1].t <= t:
            index += 1
        found.append(readings[index].watts)
    return found


def _seconds(text: str) -> float:
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


def _text(name: str) -> str:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"the recording {name} is not at hand (expected in ../shared/data/gpu_power)")
    return gzip.decompress(path.read_bytes()).decode()
