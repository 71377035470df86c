"""Cuts a valley into slices and gives each its own cause: several may follow one another."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.causes.rule import LIKELY
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.model import Cause, Segment
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope
from gaptop.valleys.verdict import judge

SLICE: Final = 0.5
"""Seconds a slice at least: one reading of the metrics at the default rate."""

SLICES: Final = 32
"""Slices a valley at most, so that a long one costs no more to judge."""

ENDED_ENOUGH: Final = 1e-6

LOOKS_LIKE: Final[tuple[Cause, Cause]] = ("prefill_interference", "stalled_busy")
"""What a whole valley is, and what its slices cannot tell it from."""


def segments(timeline: Timeline, scope: Scope, stretch: Stretch, before: Reference, best: Cause) -> tuple[Segment, ...]:
    """Slices on a fixed grid, each with its own cause where that is plain and the whole valley's otherwise, merged.

    A prompt is booked when its prefill ends: in all slices but the last one a prefill looks like a wedge, so that none
    of them may say so where the whole valley, booking included, is a prefill.
    """
    length = stretch.end - stretch.start
    if length < 2 * SLICE:
        return (Segment(stretch.start, stretch.end, best),)
    step = SLICE
    while length / step > SLICES:
        step *= 2
    parts: list[Segment] = []
    start = stretch.start
    while start < stretch.end:
        end = min((int(start / step + ENDED_ENOUGH) + 1) * step, stretch.end)
        if stretch.end - end < step / 2:
            end = stretch.end
        findings = judge(gather(timeline, scope, replace(stretch, start=start, end=end), before))
        finding = next(item for item in findings if (best, item.cause) != LOOKS_LIKE)
        cause = finding.cause if finding.score >= LIKELY else best
        if parts and parts[-1].cause == cause:
            parts[-1] = Segment(parts[-1].start_s, end, cause)
        else:
            parts.append(Segment(start, end, cause))
        start = end
    return tuple(parts)
