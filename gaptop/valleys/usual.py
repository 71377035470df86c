"""What progress is usual: the recent rates of one server, as its whole and per request, and its step rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop.valleys.level import Level

SPAN: Final = 0.4
"""Seconds that a rate is taken over, at least: tokens come in lumps, and two readings may lie close together. One
interval at the default of two readings a second is enough."""

SPANS: Final = 120
"""The usual looks back over this many active spans: about a minute."""

ENOUGH: Final = 2
HIGH: Final = 0.9
MEDIAN: Final = 0.5
SCATTER: Final = 1.2
"""Steady servers scatter by 10-20 % between readings: what lies further above the median was a burst, not the usual."""
ALONE: Final = 1.3
"""A rate that lies further above all others than neighbours scatter, reached only once, may be none at all: what was
made in a longer time and booked in one reading. It counts when it is reached again."""
DEMAND: Final = 0.5
"""Fewer requests than this are none: gauges are whole numbers."""


class _Reached(Level):
    """Upper quantile of rates, but never a single one that stands alone above all others."""

    @property
    def value(self) -> float | None:
        within, rates = super().value, self._sorted
        if within is None or len(rates) < 2 or rates[-1] <= ALONE * rates[-2]:
            return within
        return min(within, rates[-2])


@dataclass(slots=True)
class _Span:
    end: float
    seconds: float = 0.0
    units: float = 0.0
    steps: float = 0.0
    demand: float | None = None


class Usual:
    """Give it the intervals of ordinary times in order; neighbours are gathered to spans before they count."""

    def __init__(self) -> None:
        self._level = _Reached(SPANS, HIGH)
        self._each = _Reached(SPANS, HIGH)
        self._middle = _Reached(SPANS, MEDIAN)
        self._middle_each = _Reached(SPANS, MEDIAN)
        self._steps = _Reached(SPANS, MEDIAN)
        self._span: _Span | None = None

    @property
    def level(self) -> float | None:
        """Units a second; None until enough was seen."""
        return self._level.value if len(self._level) >= ENOUGH else None

    def expected(self, demand: float, level: float) -> float:
        """Units a second that so many requests should get: ``level`` (what the server as a whole reached), or what each
        of so many requests got, if that is less.

        A server that was fast for a moment (alone on its cores, or with fewer of them held) is not expected to stay so:
        at a usual demand, no more than scatter above what it did half of the time.
        """
        each, middle, middle_each = self._each.value, self._middle.value, self._middle_each.value
        if each is None or middle is None or middle_each is None:
            return level
        return min(level, each * demand, SCATTER * max(middle, middle_each * demand))

    def ordinary(self, demand: float, expected: float) -> float:
        """What so many requests got half of the time, where that is less than what is ``expected`` of them: a server
        that is back there is back, though it was faster for a while."""
        middle, middle_each = self._middle.value, self._middle_each.value
        if middle is None or middle_each is None:
            return expected
        return min(expected, max(middle, middle_each * demand))

    @property
    def steps(self) -> float | None:
        """Engine steps a second."""
        return self._steps.value

    def clear(self) -> None:
        for level in (self._level, self._each, self._middle, self._middle_each, self._steps):
            level.clear()
        self._span = None

    def add(self, start: float, end: float, rate: float, steps: float | None, demand: float | None) -> None:
        """One interval between two readings; ``demand`` are the requests meanwhile, None where they were not seen."""
        if rate <= 0.0:
            self._span = None
            return
        span = self._span
        if span is None or abs(start - span.end) > 1e-6:
            self._span = span = _Span(start)
        span.end = end
        span.seconds += end - start
        span.units += rate * (end - start)
        span.steps += (steps or 0.0) * (end - start)
        if demand is not None:
            span.demand = max(demand, span.demand or 0.0)
        if span.seconds >= SPAN - 1e-6:
            self._count(span)
            self._span = None

    def _count(self, span: _Span) -> None:
        rate = span.units / span.seconds
        self._level.add(rate)
        self._middle.add(rate)
        if span.steps:
            self._steps.add(span.steps / span.seconds)
        if span.demand is not None and span.demand >= DEMAND:
            self._each.add(rate / span.demand)
            self._middle_each.add(rate / span.demand)
