"""The ordinary time before a valley, asked once for each signal however many slices are compared with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.reading import Fold, Interval


class Reference:
    """Means and rates over some intervals, remembered. Made anew whenever the Timeline may know more."""

    def __init__(self, timeline: Timeline, intervals: Sequence[Interval]) -> None:
        self._timeline = timeline
        self._intervals = tuple(intervals)
        self._known: dict[tuple[object, ...], float | None] = {}

    def mean(self, signal: str, sources: Sequence[str], how: Fold = "sum") -> float | None:
        """Time-weighted mean of a signal; None where it was not seen."""
        return self.ask(
            ("mean", signal, tuple(sources), how),
            lambda start, end: reading.mean(self._timeline, signal, sources, start, end, how),
        )

    def rate(self, signal: str, sources: Sequence[str]) -> float | None:
        """Mean increment a second of a counter; None where it was not seen."""
        return self.ask(
            ("rate", signal, tuple(sources)),
            lambda start, end: reading.rate(self._timeline, signal, sources, start, end),
        )

    def ask(self, key: tuple[object, ...], question: Callable[[float, float], float | None]) -> float | None:
        """The mean answer over the intervals, weighted by their lengths."""
        if key not in self._known:
            self._known[key] = self._over(question)
        return self._known[key]

    def _over(self, question: Callable[[float, float], float | None]) -> float | None:
        total = weight = 0.0
        for start, end in self._intervals:
            value = question(start, end)
            if value is not None:
                total += value * (end - start)
                weight += end - start
        return total / weight if weight > 0.0 else None
