"""A device whose true busy times are known, seen through windows that are rounded to whole per cents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gaptop.recording.lines import Batch, Header, Line, Source, Tick, Watermark
from gaptop.timeline.types import Steps

GPU = "nvml/GPU-a"
Gaps = Sequence[tuple[float, float]]
"""True idle times (from, to) in seconds, ascending, apart from each other."""


def whole(share: float, rounding: str) -> float:
    """A share as a driver shows it."""
    if not rounding:
        return share
    return math.floor(100 * share + (0.5 if rounding == "nearest" else 0.0) + 1e-7) / 100


def idle_within(gaps: Gaps, start: float, end: float) -> float:
    return sum(max(0.0, min(end, b) - max(start, a)) for a, b in gaps)


def row(values: Sequence[float], window: float = 0.2, first: float = 0.0) -> Steps:
    """Readings one after the other."""
    bounds = [first + window * index for index in range(len(values) + 1)]
    return Steps(np.array(bounds[:-1]), np.array(bounds[1:]), np.array(values, np.float64))


def windows(gaps: Gaps, window: float, count: int, rounding: str, first: float = 0.0) -> Steps:
    """The readings of ``count`` windows of a device that is busy but for the gaps."""
    starts = [first + window * index for index in range(count)]
    return row([whole(1.0 - idle_within(gaps, a, a + window) / window, rounding) for a in starts], window, first)


def longest_at_rest(gaps: Gaps, steps: Steps) -> float:
    """The true length of the longest gap, where a window that reads no more than 2 % counts as idle."""
    rest = [(a, b) for a, b, value in zip(steps.start, steps.end, steps.value, strict=True) if value <= 0.02 + 1e-9]
    longest = reached = since = -math.inf
    for a, b in sorted([*gaps, *rest]):
        since = since if a <= reached + 1e-9 else a
        reached = max(reached, b)
        longest = max(longest, reached - since)
    return float(longest)


def slivers(values: Sequence[float], window: float) -> float:
    """Seconds by which a gap may seem longer, where it leaves no more than a sliver of work in its first or last
    window: that might as well be work within it."""
    count = sum(0.0 < value <= 0.02 + 1e-9 for value in values)
    return (0.03 * count + 2 * 0.02 * (count > 0)) * window


def stream(
    gaps: Gaps, seconds: float, window: float, made: str, stated: str, every: float = 0.25, **info: Any
) -> list[Line]:
    """A probe's lines: rounded as ``made``, and as the source states it; windows delivered at each drain."""
    entity = {"uuid": "GPU-a", "name": "GPU", "kind2": "gpu", "index": 0, "pids": None}
    described = {"window": window, "window_measured": True, "rounding": stated, **info}
    lines: list[Line] = [
        Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00+00:00", 1, {"name": "h"}),
        Source(0.0, GPU, "devices.nvml", "device", entity, ["device.busy"], every, **described),
    ]
    steps = windows(gaps, window, int(seconds / window), made)
    ready = list(zip(steps.end.tolist(), steps.value.tolist(), strict=True))
    for drain in range(1, int(seconds / every) + 1):
        t = drain * every
        due = [item for item in ready if item[0] <= t + 1e-9]
        ready = ready[len(due) :]
        if due:
            lines.append(Batch(GPU, [end for end, _ in due], {"device.busy": [value for _, value in due]}))
            lines.append(Watermark(GPU, t))
        lines.append(Tick(t))
    return lines
