"""Cuts a valley into slices and gives each its own cause: several may follow one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.causes.rule import LIKELY
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.model import Cause, Finding, Segment
from gaptop.valleys.reference import Reference
from gaptop.valleys.remedy import Remedy
from gaptop.valleys.scope import Scope
from gaptop.valleys.verdict import judge

SLICE: Final = 0.5
"""Seconds a slice at least: one reading of the metrics at the default rate."""

SLICES: Final = 32
"""Slices a valley at most, so that a long one costs no more to judge."""

ENDED_ENOUGH: Final = 1e-6

LOOKS_LIKE: Final[frozenset[Cause]] = frozenset({"stalled_busy"})
HAND_OVER_LOOKS_LIKE: Final[frozenset[Cause]] = LOOKS_LIKE | {"external_wait", "synchronisation"}
"""What the slices of a prefill cannot tell it from, as its prompt is booked at its end; with a hand-over of its KV."""


def _mistaken(best: Finding) -> frozenset[Cause]:
    if best.cause != "prefill_interference":
        return frozenset()
    return HAND_OVER_LOOKS_LIKE if best.remedy is Remedy.HAND_OVER else LOOKS_LIKE


def segments(
    timeline: Timeline,
    scope: Scope,
    stretch: Stretch,
    before: Reference,
    best: Finding,
    still: float = 0.0,
    *,
    stacks: bool = False,
) -> tuple[Segment, ...]:
    """Slices on a fixed grid, each with its own cause where that is plain and the whole valley's otherwise, merged.

    A prompt is booked when its prefill ends: in all slices but the last one a prefill looks like a wedge, so that none
    of them may say so where the whole valley, booking included, is a prefill. ``still``: seconds without any step that
    the slices are parts of. ``stacks``: the whole has them, so that a slice too short for them says nothing of its own.
    """
    if stretch.end - stretch.start < 2 * SLICE:
        return (Segment(stretch.start, stretch.end, best.cause),)
    mistaken = _mistaken(best)

    def plain(first: float, last: float) -> tuple[Cause | None, bool]:
        """The cause of a part where that is plain, and whether no step was taken in it."""
        part = gather(timeline, scope, replace(stretch, start=first, end=last), before)
        if stacks and not part.stacks_seen:
            return None, part.frozen is True
        findings = judge(replace(part, stood_still=still))
        found = next(item for item in findings if item.cause not in mistaken)
        return (found.cause if found.score >= LIKELY else None), part.frozen is True

    judged = [(item.start, item.end, *plain(item.start, item.end)) for item in slices(stretch)]
    parts: list[Segment] = []
    for standing, group in groupby(judged, key=lambda item: item[3] and item[2] is None):
        run = list(group)
        # Slices without a step and without a cause of their own are one standstill, and longer than each of them.
        whole = plain(run[0][0], run[-1][1])[0] if standing and len(run) > 1 else None
        for first, last, cause, _ in run:
            parts.append(Segment(first, last, cause or whole or best.cause))
    # More is seen over several slices than in each: connections are counted once a second, waits need many samples.
    longer = [
        replace(part, cause=plain(part.start_s, part.end_s)[0] or part.cause) if part.cause != best.cause else part
        for part in _merged(parts)
    ]
    return _merged(longer)


def _merged(parts: Iterable[Segment]) -> tuple[Segment, ...]:
    """Neighbours of one cause as one."""
    merged: list[Segment] = []
    for part in parts:
        if merged and merged[-1].cause == part.cause:
            merged[-1] = replace(part, start_s=merged[-1].start_s)
        else:
            merged.append(part)
    return tuple(merged)


def slices(stretch: Stretch) -> list[Stretch]:
    """Slices on a fixed grid; one shorter than half a step goes to its neighbour."""
    step = SLICE
    while (stretch.end - stretch.start) / step > SLICES:
        step *= 2
    found: list[Stretch] = []
    start = stretch.start
    while start < stretch.end:
        end = min((int(start / step + ENDED_ENOUGH) + 1) * step, stretch.end)
        if stretch.end - end < step / 2:
            end = stretch.end
        found.append(replace(stretch, start=start, end=end))
        start = end
    return found
