"""Small questions to the Timeline, answered with None where nothing was seen. Several series of one signal add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Floats, SeriesId, Steps
from gaptop.valleys.evidence import Gauge

Interval = tuple[float, float]
MIN_SEEN: Final = 0.5
"""What was seen for less than half of a range says nothing about it."""

Fold = Literal["sum", "max", "mean"]


def series(timeline: Timeline, signal: str, sources: Sequence[str]) -> tuple[SeriesId, ...]:
    """Every series of that signal from those sources, in a fixed order."""
    return tuple(item for source in sources for item in sorted(timeline.ids(signal, source)))


def _fold(values: list[float], how: Fold) -> float | None:
    if not values:
        return None
    if how == "sum":
        return float(sum(values))
    return max(values) if how == "max" else float(sum(values) / len(values))


def mean(
    timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float, how: Fold = "sum"
) -> float | None:
    """Time-weighted mean over the range, of those series that were seen for half of it at least."""
    found = [seen_mean(timeline, item, start, end) for item in series(timeline, signal, sources)]
    return _fold([value for value in found if value is not None], how)


def seen_mean(timeline: Timeline, item: SeriesId, start: float, end: float) -> float | None:
    """Time-weighted mean of one series; None where under half of the range was seen."""
    value = timeline.mean(item, start, end)
    return value if value is not None and timeline.coverage(item, start, end) >= MIN_SEEN else None


def seen_seconds(timeline: Timeline, item: SeriesId, start: float, end: float) -> tuple[float, float]:
    """Seconds of the range that a series was seen, and its integral over them."""
    seconds = timeline.coverage(item, start, end) * (end - start)
    return seconds, (timeline.mean(item, start, end) or 0.0) * seconds


def highest(timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float) -> float | None:
    """Highest reading of any of the series."""
    found = [timeline.extremes(item, start, end) for item in series(timeline, signal, sources)]
    return _fold([value[1] for value in found if value is not None], "max")


def increase(timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float) -> float | None:
    """Counters: increment over the range."""
    found = [timeline.increase(item, start, end) for item in series(timeline, signal, sources)]
    return _fold([value for value in found if value is not None], "sum")


def rate(timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float) -> float | None:
    """Counters: mean increment a second over what was covered of the range (half of it at least)."""
    found = []
    for item in series(timeline, signal, sources):
        grown = timeline.increase(item, start, end)
        if grown is not None:
            found.append(grown / (timeline.coverage(item, start, end) * (end - start)))
    return _fold(found, "sum")


def gauge(
    timeline: Timeline,
    signal: str,
    sources: Sequence[str],
    start: float,
    end: float,
    period: float,
    before: float | None,
) -> Gauge | None:
    """A gauge as it was *read* inside the range: what was read before it and merely lasted into it
    (one ``period`` at most) is left out.

    Where the range is shorter than the period between readings, the reading before it stands in.
    """
    return gauge_of(timeline, series(timeline, signal, sources), start, end, period, before)


def gauge_of(
    timeline: Timeline, items: Sequence[SeriesId], start: float, end: float, period: float, before: float | None
) -> Gauge | None:
    """The same of these series alone."""
    parts = [timeline.steps(item, start, end) for item in items]
    parts = [part for part in parts if len(part.start)]
    if not parts:
        return None
    values, weights, seen = _sum(parts, start, end, 1.2 * period)
    if seen < MIN_SEEN * (end - start):
        return None
    return Gauge(
        mean=float(np.average(values, weights=weights)),
        low=float(values.min()),
        high=float(values.max()),
        first=float(values[0]),
        last=float(values[-1]),
        before=before,
    )


def _sum(parts: Sequence[Steps], start: float, end: float, carried: float) -> tuple[Floats, Floats, float]:
    """The sum of step functions over (start, end]: its pieces' values and seconds, without what was only carried in;
    and the seconds that were seen at all."""
    edges = np.unique(np.concatenate([[start, end], *(part.start for part in parts), *(part.end for part in parts)]))
    edges = edges[(edges >= start) & (edges <= end)]
    middle = (edges[1:] + edges[:-1]) / 2
    total = np.zeros(len(middle))
    seen = np.zeros(len(middle), dtype=bool)
    fresh = np.zeros(len(middle), dtype=bool)
    for part in parts:
        index = np.searchsorted(part.start, middle, side="left") - 1
        inside = (index >= 0) & (middle <= part.end[np.maximum(index, 0)])
        total[inside] += part.value[index[inside]]
        seen |= inside
        old = (part.start[0] < start) & (part.end[0] - start <= carried) & (len(part.start) > 1)
        fresh |= inside & ~((index == 0) & old)
    keep = seen & fresh if (seen & fresh).any() else seen
    return total[keep], np.diff(edges)[keep], float(np.diff(edges)[seen].sum())
