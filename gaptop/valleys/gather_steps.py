"""Whether the engine took a step between the readings at a stretch's edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.freshness import slowest
from gaptop.valleys.reference import Reference

WITHIN: Final = 0.3
"""Share of a stretch that must lie between those readings: three intervals, less what a clock scatters."""


def progress_between(
    timeline: Timeline,
    counted: Sequence[tuple[str, Sequence[str]]],
    start: float,
    end: float,
    before: Reference,
) -> float | None:
    """Steps (or tokens) against the usual, without the readings' intervals at both edges of the stretch.

    ``counted``: the counters in the order in which they are asked, each with its sources. What a server moves only now
    and then says nothing there. None where too little lies between the edges.
    """
    for signal, sources in counted:
        infos = [timeline.sources[item].info for item in sources if item in timeline.sources]
        usual = before.rate(signal, sources)
        if not usual or slowest(infos, signal, usual) > 0.0:
            continue
        pieces = [timeline.steps(item, start, end) for item in reading.series(timeline, signal, sources)]
        if not pieces or any(len(piece.start) < 3 for piece in pieces):
            continue
        first, last = max(float(item.end[0]) for item in pieces), min(float(item.start[-1]) for item in pieces)
        if last - first < WITHIN * (end - start):
            continue
        rate = reading.rate(timeline, signal, sources, first, last)
        if rate is not None:
            return rate / usual
    return None
