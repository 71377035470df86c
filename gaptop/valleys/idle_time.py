"""Which idle second of a device is told with which cause: each with one. Pure.

A valley's windows may reach into those of the next one, and into the time before a device had a level. What is taken
once is not told again, so that the ledger's rows add up to what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from gaptop.timeline.intervals import Intervals
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.units import MICRO, nearest
from gaptop.valleys.grid import CELL
from gaptop.valleys.member import Member
from gaptop.valleys.model import Segment, Valley
from gaptop.valleys.rounding import centred

ALWAYS: Final = -(1 << 62)
"""Microseconds; before all time."""

ByCause = dict[str, float]
"""Idle seconds by cause."""


class Taken:
    """The time of each device that is told already, by the source that tells of it; ``before`` holds what others have
    taken for good."""

    def __init__(self, before: Taken | None = None) -> None:
        self._before = before
        self._intervals: dict[str, Intervals] = {}

    def until(self, source: str, moment: float) -> None:
        """Everything before a moment is told otherwise."""
        self._of(source).add(ALWAYS, nearest(moment))

    def free(self, source: str, start: float, end: float) -> Iterator[tuple[float, float]]:
        """The parts of (start, end) that nobody has taken."""
        for first, last in self._left(source, nearest(start), nearest(end)):
            yield first / MICRO, last / MICRO

    def take(self, source: str, start: float, end: float) -> None:
        self._of(source).add(nearest(start), nearest(end))

    def _of(self, source: str) -> Intervals:
        return self._intervals.setdefault(source, Intervals())

    def _left(self, source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        left = iter(((start, end),)) if self._before is None else self._before._left(source, start, end)
        own = self._intervals.get(source)
        for first, last in left:
            if own is None:
                yield first, last
            else:
                yield from own.outside(first, last)


def by_cause(
    timeline: Timeline,
    valley: Valley,
    taken: Taken,
    *,
    start: float = -math.inf,
    counted: Mapping[str, float],
    rounding: Mapping[str, str] | None = None,
) -> dict[str, ByCause]:
    """Idle seconds of each device from ``start`` on, by the causes of the valley's segments, and taken by that.

    ``counted`` tells, by source, up to when readings count. ``rounding`` says by device how all of them were made
    whole, where that was learnt later than the valley.
    """
    found: dict[str, ByCause] = {}
    for member in valley.members:
        source, end = member.source, min(member.end_s, counted.get(member.source, -math.inf))
        mine = found.setdefault(member.device, {})
        for first, last, cause in _parts(valley, member):
            for a, b in taken.free(source, max(first, start), min(last, end)):
                known = member.rounding if rounding is None else rounding.get(member.device, "")
                idle = _idle(timeline, member, a, b, known)
                mine[cause] = mine.get(cause, 0.0) + idle
        taken.take(source, max(member.start_s, start), end)
    return found


def _parts(valley: Valley, member: Member) -> Iterator[tuple[float, float, str]]:
    """The valley's segments as far as they are the device's; the outer ones reach to the ends of its windows."""
    segments: Sequence[Segment] = valley.verdict.segments
    if not segments:
        yield member.start_s, member.end_s, valley.verdict.cause
        return
    edges = [member.start_s, *(part.start_s for part in segments[1:]), member.end_s]
    for part, first, last in zip(segments, edges, edges[1:], strict=False):
        a, b = max(first, member.start_s), min(last, member.end_s)
        if a < b:
            yield a, b, part.cause


def _idle(timeline: Timeline, member: Member, start: float, end: float, rounding: str) -> float:
    """Idle seconds in (start, end); where the windows are forgotten, its idle time counts as spread evenly."""
    if end <= start:
        return 0.0
    ids = timeline.ids("device.busy", member.source)
    kept = timeline.steps(ids[0], member.start_s, member.end_s) if ids and member.windows else None
    if kept is None or not len(kept.start) or kept.start[0] > member.start_s + CELL:
        return member.idle_s * (end - start) / (member.end_s - member.start_s)
    busy = np.minimum(centred(np.clip(kept.value, 0.0, 1.0), rounding), 1.0)
    lengths = np.clip(np.minimum(kept.end, end) - np.maximum(kept.start, start), 0.0, None)
    return float(((1.0 - busy) * lengths).sum())
