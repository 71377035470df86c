"""A set of moments as sorted, disjoint intervals of microseconds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

_MOST: Final = 50_000
"""Intervals kept; a stream that declares more loses the oldest ones."""


class Intervals:
    """Half-open intervals [start, end); touching and overlapping ones become one."""

    __slots__ = ("_ends", "_starts", "last")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.last = -(1 << 62)
        """The end of the newest interval; before all time while there is none."""

    def add(self, start: int, end: int) -> bool:
        """Include [start, end); False where that changes nothing."""
        if end <= start:
            return False
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            if self._starts[first] <= start and end <= self._ends[first]:
                return False
            start = min(start, self._starts[first])
            end = max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]
        if len(self._starts) > _MOST:
            self._forget(len(self._starts) - _MOST * 7 // 8)
        self.last = self._ends[-1]
        return True

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The intervals that share time with [start, end), whole, in order."""
        index = bisect_right(self._ends, start) if start < end else len(self._ends)
        while index < len(self._starts) and self._starts[index] < end:
            yield self._starts[index], self._ends[index]
            index += 1

    def total(self, start: int, end: int) -> int:
        """Microseconds of [start, end) that are in the set."""
        return sum(min(b, end) - max(a, start) for a, b in self.within(start, end))

    def outside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, end) that are not in the set."""
        for a, b in self.within(start, end):
            if a > start:
                yield start, a
            start = b
        if start < end:
            yield start, end

    def drop_before(self, moment: int) -> None:
        """Forget the intervals that ended before a moment."""
        self._forget(bisect_left(self._ends, moment))

    def _forget(self, count: int) -> None:
        del self._starts[:count], self._ends[:count]
