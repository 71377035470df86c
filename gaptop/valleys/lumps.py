"""Counters that move only every so often: their intervals, gathered from one movement to the next. Pure.

Between two movements such a counter stands still although the server works, and then moves by all of it at once.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import replace
from typing import Final

from gaptop.valleys.progress import Interval

STANDS: Final = 2.0
"""A counter that has not moved for twice its time between movements stands still."""

MOVEMENTS: Final = 9
"""How far back the usual time between movements is looked for, where it is stated in steps."""


class Lumps:
    """Give it the intervals between readings in order; it gives those between movements. ``every``: seconds between
    movements, infinite where they are to be learnt, 0 where the counter moves with every step."""

    def __init__(self) -> None:
        self.every = 0.0
        self._took: deque[float] = deque(maxlen=MOVEMENTS)
        self._start: float | None = None
        self._standing = False

    def feed(self, item: Interval) -> Interval | None:
        if self.every == 0.0:
            return item
        if self._start is None:
            # What the first movement holds began before it was watched.
            self._start = item.end if item.rate > 0.0 else None
            return None
        start, seconds = self._start, item.end - self._start
        if item.rate > 0.0:
            self._start, standing, self._standing = item.end, self._standing, False
            self._took.append(seconds)
            return item if standing else _spread(item, start, seconds)
        if self._standing:
            return item
        if seconds <= STANDS * self._usual():
            return None
        self._standing = True
        return replace(item, start=start)

    def _usual(self) -> float:
        if self.every < float("inf"):
            return self.every
        return statistics.median(self._took) if self._took else float("inf")


def _spread(item: Interval, start: float, seconds: float) -> Interval:
    """What one movement brought, over all of the time that it took."""
    share = (item.end - item.start) / seconds
    return replace(item, start=start, rate=item.rate * share, steps=None if item.steps is None else item.steps * share)
