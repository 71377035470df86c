"""The recent busy level of a signal: a high quantile of its last active observations."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque


class Level:
    """Upper quantile of the newest ``capacity`` observations that were given to it, in O(log n) a step."""

    def __init__(self, capacity: int, quantile: float) -> None:
        self._order: deque[float] = deque()
        self._sorted: list[float] = []
        self._capacity = capacity
        self._quantile = quantile

    def add(self, value: float) -> None:
        self._order.append(value)
        insort(self._sorted, value)
        if len(self._order) > self._capacity:
            del self._sorted[bisect_left(self._sorted, self._order.popleft())]

    def clear(self) -> None:
        self._order.clear()
        self._sorted.clear()

    def __len__(self) -> int:
        return len(self._order)

    @property
    def value(self) -> float | None:
        """None before anything was added."""
        if not self._sorted:
            return None
        return self._sorted[math.ceil(self._quantile * (len(self._sorted) - 1))]
