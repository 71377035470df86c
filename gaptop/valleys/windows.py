"""One valley of one device, measured by the device's own windows: idle seconds, edges, the longest gap in it. Pure.

Cells find a valley, but they mix neighbouring windows; what is told of it comes from the windows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gaptop.recording.lines import Source
from gaptop.timeline.types import Floats, Steps
from gaptop.valleys.detect import EDGE, Dip
from gaptop.valleys.grid import CELL
from gaptop.valleys.rounding import WHOLE, centred, doubt, most_idle, partial

APART: Final = 1e-3
"""Seconds from one window's end to the next one's start from which on something was not seen."""

FARTHEST: Final = 3600.0
"""Seconds. A source that states a larger error than this says no more by it."""

EMPTY: Final = 1e-4
"""A window that reads no more than this is empty: float32 and nothing else."""

AT_REST: Final = 0.02
"""A window that reads no more than this counts as idle in a gap. Devices at rest show 1-2 % by themselves: GPUs when a
program attaches, the threads of a server that only looks whether there is work."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Seconds. ``longest``: bounds of the longest gap, idle to within 2 %; None where its windows are forgotten.
    ``bounds`` are those of all its windows."""

    start: float
    end: float
    idle: float
    error: float
    longest: tuple[float, float] | None
    bounds: tuple[float, float]


def misplaced(info: Source | None) -> float:
    """Seconds that a window's bounds may lie away from where they are taken to be. Stamps of the device's own clock are
    its bounds; what we read ourselves ends sometime within the error of the reading."""
    return 0.0 if info is None or info.clock else min(max(0.0, info.error, info.jitter), FARTHEST)


def reach(dip: Dip) -> float:
    """Up to where a dip is known to last."""
    return dip.low_end if dip.end is None else dip.end


def span(dip: Dip, window: float) -> tuple[float, float]:
    """The time whose windows :func:`measure` asks for: two windows around, and the holes that it touches."""
    return dip.start - dip.start_error - 2 * window, reach(dip) + dip.end_error + 2 * window


def measure(steps: Steps, dip: Dip, window: float, off: float = 0.0) -> Measure:
    """Measure one dip by its windows (those of :func:`span`), whose bounds may each be ``off`` by so many seconds.

    Its first and last window are the outermost ones that were not ordinary: a gap that begins near a window's end takes
    only a little of it. The busy part of the first window lies before the valley and that of the last one behind it;
    in a single window there is no telling, and its own bounds stay.
    """
    first, after = _members(steps, dip)
    if first >= after or steps.start[first] > dip.start + CELL:
        # Longer ago than the timeline remembers: the cells were added up while it went on.
        unseen = max(0.0, reach(dip) - dip.start - dip.seconds)
        rounded = dip.partial_windows * doubt(dip.rounding).error * window
        bounds = dip.start, reach(dip)
        return Measure(*bounds, dip.idle, rounded + unseen + 2 * off, None, bounds)
    starts, ends, values = (part[first:after] for part in (steps.start, steps.end, steps.value))
    lengths = ends - starts
    busy = np.clip(centred(values, dip.rounding), 0.0, 1.0)
    start, end = bounds = float(starts[0]), float(ends[-1])
    if len(values) > 1:
        shares = np.minimum(busy / dip.level, 1.0)
        start += float(shares[0] * lengths[0])
        if dip.end is not None:
            end -= float(shares[-1] * lengths[-1])
    holes = np.maximum(starts[1:] - ends[:-1], 0.0)
    unseen = float(holes[holes > APART].sum())
    idle = float(((1.0 - busy) * lengths).sum())
    error = _error(values, lengths, dip.rounding) + unseen + off * _turns(1.0 - busy)
    around = slice(max(0, first - 1), after + 1)
    wide = Steps(steps.start[around], steps.end[around], steps.value[around])
    low, high = longest_gap(wide, dip.rounding)
    return Measure(start, end, idle, error, (max(0.0, low - 2 * off), high + 2 * off), bounds)


def _turns(idle: Floats) -> float:
    """By how much the idle share rises and falls over the windows: what moving their bounds by a second can change."""
    return float(np.abs(np.diff(np.concatenate([[0.0], idle, [0.0]]))).sum())


def _members(steps: Steps, dip: Dip) -> tuple[int, int]:
    """The windows of a dip: the first one, and one past the last."""
    starts, ends, values = steps.start, steps.end, steps.value
    floor = dip.level - EDGE if dip.floor is None else dip.floor
    inside = np.flatnonzero((ends > dip.start + APART) & (starts < reach(dip) - APART))
    if not len(inside):
        return 0, 0
    first, after = int(inside[0]), int(inside[-1]) + 1
    low = values < floor - 1e-6
    while first < after and not low[first]:
        first += 1
    while after > first and not low[after - 1]:
        after -= 1

    def alone(index: int, beyond: int) -> bool:
        """A window next to the dip that is low, with an ordinary one beyond it: it holds the gap's edge."""
        if not 0 <= index < len(values) or not low[index]:
            return False
        return not 0 <= beyond < len(values) or not low[beyond]

    if first < after:
        if alone(first - 1, first - 2) and starts[first] - ends[first - 1] < APART and ends[first - 1] > dip.not_before:
            first -= 1
        if dip.end is not None and alone(after, after + 1) and starts[after] - ends[after - 1] < APART:
            after += 1
    return first, after


def _error(values: Floats, lengths: Floats, rounding: str) -> float:
    """What rounding leaves open of the idle seconds.

    Each of the two edges of a gap lies in a partial window, or so close to a window's bound that it reads 0 or 100.
    """
    known = doubt(rounding)
    inside = partial(values)
    error = known.error * float((inside * lengths).sum())
    for edge in (0, -1):
        if values[edge] <= WHOLE:
            error += max(known.zero, known.full) * float(lengths[edge])
    if len(values) == 1 and inside[0]:
        error += known.full * float(lengths[0])
    return error


def longest_gap(steps: Steps, rounding: str) -> tuple[float, float]:
    """Bounds of the longest gap in neighbouring windows (the low ones, with one more at each end), in seconds.

    A gap is idle to within 2 %: windows that read no more than that are one gap where they lie in a row, to within the
    work that those at its ends may hold outside of it. It may reach into the window before and after them by as much
    as those were idle (and 2 % more, where a window of the row shows work that does not end a gap); without a row, the
    idle parts of two neighbours may touch. No gap spans a window that reads more. A hole was not seen: it adds to what
    is possible, never to what is sure.
    """
    most = most_idle(steps.value, rounding)
    high = touching = beside = 0.0
    worked = False
    reached: float | None = None
    for start, end, value, idle in zip(
        *(part.tolist() for part in (steps.start, steps.end, steps.value, most)), strict=True
    ):
        if reached is not None and start - reached > APART:
            touching += start - reached
        reached = end
        if value <= AT_REST + EMPTY:
            if value > EMPTY and not worked:
                worked = True
                touching += beside
            touching += end - start
            high = max(high, touching)
            continue
        spare = min(AT_REST, 1.0 - idle) * (end - start)
        high = max(high, touching + idle * (end - start) + (spare if worked else 0.0))
        touching, beside, worked = idle * (end - start), spare, False
    return _sure(steps, rounding), high


def _sure(steps: Steps, rounding: str) -> float:
    """The longest row of windows at rest, less the work that its two ends may hold: the gap may begin after it, or end
    before it."""
    known = doubt(rounding)
    sure = seconds = first = 0.0
    reached: float | None = None
    for start, end, value in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True):
        if value > AT_REST + EMPTY or (reached is not None and start - reached > APART):
            seconds = 0.0
        reached = end
        if value <= AT_REST + EMPTY:
            work = (value + known.above if value > EMPTY else known.zero) * (end - start)
            sure = max(sure, seconds + end - start - work - (first if seconds else 0.0))
            first = first if seconds else work
            seconds += end - start
    return sure
