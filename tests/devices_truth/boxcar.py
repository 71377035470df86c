"""What a driver shows of known work: the share of each window in which a kernel ran, in whole per cents. Pure.

The tests compare what gaptop says with the true intervals; this model only checks the stand-in library and plays the
pollers that gaptop is compared with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import floor
from typing import Literal

Intervals = Sequence[tuple[float, float]]
"""Busy from, to: seconds, ascending, not overlapping."""
Rounding = Literal["nearest", "down"]
SLACK = 1e-9
"""Per cents: what binary fractions may lose of a true whole one."""


def around(gaps: Intervals, seconds: float) -> list[tuple[float, float]]:
    """Busy all the time from 0 to ``seconds`` but for the gaps (ascending, not overlapping)."""
    edges = [0.0, *(edge for gap in gaps for edge in gap), seconds]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]


def overlap(intervals: Intervals, start: float, end: float) -> float:
    """Seconds of [start, end] that the intervals cover."""
    return sum(max(0.0, min(end, b) - max(start, a)) for a, b in intervals)


def whole(percent: float, rounding: Rounding) -> int:
    """Per cents as a driver makes them whole."""
    return floor(percent + (0.5 if rounding == "nearest" else 0.0) + SLACK)


def duties(busy: Intervals, window: float, count: int, start: float = 0.0) -> list[float]:
    """The true share (0..100) of each of ``count`` windows, the first of which begins at ``start``."""
    starts = [interval[0] for interval in busy]
    done = [0.0, *accumulate(b - a for a, b in busy)]

    def until(t: float) -> float:
        index = bisect_right(starts, t)
        return 0.0 if index == 0 else done[index] - max(0.0, busy[index - 1][1] - t)

    edges = [until(start + index * window) for index in range(count + 1)]
    return [100 * (after - before) / window for before, after in zip(edges, edges[1:], strict=False)]


def readings(busy: Intervals, window: float, count: int, rounding: Rounding) -> list[int]:
    """What the ring holds after ``count`` windows."""
    return [whole(duty, rounding) for duty in duties(busy, window, count)]


def polled(values: Sequence[int], window: float, times: Sequence[float], delay: float = 0.01) -> list[int | None]:
    """What GetUtilizationRates answers at those times: the newest window that is out; None before the first."""
    out = [floor((t - delay) / window + SLACK) - 1 for t in times]
    return [values[min(index, len(values) - 1)] if index >= 0 else None for index in out]
