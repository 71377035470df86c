"""How a driver makes its utilisation whole per cents, told by comparing it with GPM, which does not round. Pure.

Half a per cent of a window is a millisecond of each partial one, always to the same side where the driver rounds down:
enough to spoil a sum over many short gaps.
"""

from __future__ import annotations

from cmath import exp, pi
from collections import Counter, deque
from math import sqrt
from typing import Final

from gaptop_collectors.collector import Rounding

PAIRS: Final = 60
KEPT: Final = 600
PARTIAL: Final = (2, 98)
"""Per cents between which a window counts: at the ends there is nothing to round."""
STEADY: Final = 0.03
"""GPM's intervals lie otherwise than the windows: a load that changes more than this between two blurs them."""
CLEAR: Final = 0.25
"""Points: half of the distance between the two ways of rounding (a mean error of 0, or of -0.5)."""
VALUES: Final = 8
MOST_OF_ONE: Final = 0.3
EVEN: Final = 0.35
"""A constant load of 50.4 % is 50 either way: so many different values are needed, none of them more often than this,
and the fractions of a per cent spread evenly (length of their mean vector)."""
JUDGED_EVERY: Final = 20
_REMEMBERED_NS: Final = 5_000_000_000


class RoundingLearner:
    """``told`` is "" until enough is known. Feed it both series in their order, in any interleaving.

    A GPM interval is (start, end] with the mean ratio over it; a utilisation window the same with whole per cents. The
    mean difference, with three standard errors, must lie near one way only, over values that are spread enough for
    these means to hold. A GPM that differs by some points for a reason of its own is near to none: nothing is told.
    """

    def __init__(self, told: Rounding = "") -> None:
        self.told: Rounding = told
        self._gpm: deque[tuple[int, int, float]] = deque()
        self._windows: deque[tuple[int, int, int]] = deque()
        self._pairs: deque[tuple[int, float]] = deque(maxlen=KEPT)
        """Per cents of a window, and of GPM over it."""
        self._paired = 0

    def gpm(self, start_ns: int, end_ns: int, ratio: float) -> None:
        if self.told or end_ns <= start_ns:
            return
        self._gpm.append((start_ns, end_ns, ratio))
        while self._gpm[0][1] < end_ns - _REMEMBERED_NS:
            self._gpm.popleft()
        self._pair()

    def window(self, start_ns: int, end_ns: int, percent: int) -> None:
        if self.told or not PARTIAL[0] <= percent <= PARTIAL[1]:
            return
        self._windows.append((start_ns, end_ns, percent))
        self._pair()

    def _pair(self) -> None:
        while self._windows and self._gpm and self._gpm[-1][1] >= self._windows[0][1]:
            start, end, percent = self._windows.popleft()
            mean = self._mean(start, end)
            if mean is not None:
                self._pairs.append((percent, 100 * mean))
                self._paired += 1
                if len(self._pairs) >= PAIRS and self._paired % JUDGED_EVERY == 0:
                    self._judge()

    def _mean(self, start: int, end: int) -> float | None:
        """GPM's mean over the window; None where it does not cover it, or was not steady there."""
        parts = [(min(end, b) - max(start, a), ratio) for a, b, ratio in self._gpm if b > start and a < end]
        covered = sum(length for length, _ in parts)
        if not parts or covered < 0.999 * (end - start):
            return None
        ratios = [ratio for _, ratio in parts]
        if max(ratios) - min(ratios) > STEADY:
            return None
        return sum(length * ratio for length, ratio in parts) / covered

    def _judge(self) -> None:
        count = len(self._pairs)
        seen = Counter(percent for percent, _ in self._pairs)
        uneven = abs(sum(exp(2j * pi * gpm) for _, gpm in self._pairs)) / count
        if len(seen) < VALUES or max(seen.values()) > MOST_OF_ONE * count or uneven > EVEN:
            return
        differences = [percent - gpm for percent, gpm in self._pairs]
        mean = sum(differences) / count
        spread = sum((one - mean) ** 2 for one in differences) / (count - 1)
        doubt = 3 * sqrt(spread / count)
        if abs(mean) + doubt < CLEAR:
            self.told = "nearest"
        elif abs(mean + 0.5) + doubt < CLEAR:
            self.told = "down"
