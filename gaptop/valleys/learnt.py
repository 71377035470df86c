"""How a driver makes its per cents whole, told from its own readings of many gaps of about one length. Pure.

A gap shorter than a window lies in one window or, astride a bound, in two. Rounded down, the idle of each partial
window reads half a per cent too long on average, so a gap in two windows reads that much longer than one in a single
window; rounded to the nearest, both read the same.

A length that never varies does not tell: 10.3 % of a window reads 10 (or 11) each time, and that is as far from the
mean of two windows as rounding down would be. How much the single windows scatter bounds this.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from math import exp, pi, sqrt
from statistics import fmean, variance
from typing import Final

KEPT: Final = 1_500
ENOUGH: Final = 12
"""Gaps in one window, and as many in two, before anything is said."""

BAND: Final = 4
"""Per cents around the commonest length: "about one length". Lengths that spread over more than a quarter of it are cut
off by it, and being cut off pulls both means together."""

SURE: Final = 3.5
"""Standard errors: the other way is wrong in one of four thousand."""

DIFFERENCE: Final = 0.5
"""Per cents that a gap in two windows reads longer than one in a single window where the driver rounds down."""

JUDGED_EVERY: Final = 10


class GapRounding:
    """Give it each short gap in full load; ``word`` is "" until one way is excluded."""

    def __init__(self) -> None:
        self.word = ""
        self._gaps: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._since = 0

    def add(self, values: Sequence[float]) -> None:
        """The readings (0..1) of the one or two low windows of one gap between windows of 100 %."""
        idle = [100.0 * (1.0 - value) for value in values]
        whole = [round(item) for item in idle]
        if self.word or any(abs(a - b) > 1e-3 for a, b in zip(idle, whole, strict=True)):
            return
        parts = sum(1 for item in whole if 0 < item < 100)
        if parts not in (1, 2) or parts != len(whole):
            return
        self._gaps.append((sum(whole), parts))
        self._since += 1
        if self._since >= JUDGED_EVERY:
            self._since = 0
            self.word = self._judged()

    def _judged(self) -> str:
        commonest = Counter(idle for idle, _ in self._gaps)
        near = {
            centre: sum(commonest[centre + apart] for apart in range(-BAND, BAND + 1)) for centre in sorted(commonest)
        }
        centre = max(near, key=lambda item: (near[item], commonest[item]))
        one, two = (
            [float(idle) for idle, parts in self._gaps if parts == count and abs(idle - centre) <= BAND]
            for count in (1, 2)
        )
        if min(len(one), len(two)) < ENOUGH:
            return ""
        # Even readings that are all the same have an error of this: one of them may have been another.
        spreads = [max(variance(part), 1.0 / len(part)) for part in (one, two)]
        if max(spreads) > (BAND / 3.5) ** 2:
            return ""
        difference = fmean(two) - fmean(one)
        error = SURE * sqrt(spreads[0] / len(one) + spreads[1] / len(two))
        bias = _bias(one)
        nearest = abs(difference) <= bias + error
        down = abs(difference - DIFFERENCE) <= bias + error
        if nearest == down:
            return ""
        return "nearest" if nearest else "down"


def _bias(one: Sequence[float]) -> float:
    """How far the mean of rounded lengths may lie from the mean length (per cents), given how they scatter.

    Rounding leaves exp(-2 (pi s)^2) / pi of its bias where lengths scatter by s; two values alone do not tell s.
    """
    if len(set(one)) < 3:
        return DIFFERENCE
    scatter = max(0.0, variance(one) - 1.0 / 12.0)
    return min(DIFFERENCE, exp(-2.0 * pi * pi * scatter) / pi)
