"""Some windows clearly under their steady neighbours: gaps shorter than a window show as no more, a single one in two.

What is steady is told by most of the newest windows, not by all: gaps may recur all the time that they are looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from gaptop.valleys.detect import ENTER, LOWEST_LEVEL
from gaptop.valleys.plateau import SPREAD

STEADY: Final = 10
"""So many windows in a row of one level are steady, whatever was before them; and fewer ordinary ones never are."""

SEEN: Final = 40
"""Windows looked back at for the ordinary ones among others."""

BECOMES: Final = 0.6
STAYS: Final = 0.5
"""Of the windows looked back at more than so many are ordinary ones. Of two levels in turn neither is the ordinary."""

RARE: Final = 0.1
"""Of the windows: no more than so many lie close under the ordinary ones because a gap's edge takes little of them."""

LONGEST: Final = 9
SHARE: Final = 4
"""A run is no longer than that, and has four times as many ordinary windows to be compared with."""

ONE_GAP: Final = 2
"""Windows that one gap shorter than a window can touch: it begins and ends a run as steeply as this."""

CLEAR: Final = 0.025
"""Of a window: more than two windows can differ by rounding (0.01), and than what idle drivers show (0.02)."""

SCATTER: Final = 4.0
"""A fall of four times the steady windows' whole spread is none of it: what wanders by no more than that from window to
window is three of them lower after two."""

SLACK: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Run:
    """Low windows between ordinary ones: their bounds and readings, and the steady ones' lowest, median and highest."""

    start: float
    end: float
    lengths: tuple[float, ...]
    values: tuple[float, ...]
    steady: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class _Steady:
    """The ordinary windows: how many there are, their lowest, median and highest."""

    count: int
    low: float
    usual: float
    high: float


@dataclass(slots=True)
class _Low:
    start: float
    end: float
    steady: _Steady
    lengths: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class RunFinder:
    """Feed it the windows of one device in order."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=STEADY)
        self._seen: deque[float] = deque(maxlen=SEEN)
        """The newest windows, but for those of a valley and of an idle device."""
        self._steady: _Steady | None = None
        self._low: _Low | None = None
        self._last_end: float | None = None
        self._ordinary = False
        """Whether the last window was ordinary and the next one follows on it: only from there does a run begin."""

    @property
    def floor(self) -> float | None:
        """The lowest of the steady windows before now; None while they are not steady."""
        known = self._steady if self._low is None else self._low.steady
        return None if known is None else known.low

    def feed(self, start: float, end: float, value: float) -> Run | None:
        """Take one window; returns the run that ended before it."""
        if self._last_end is not None and start - self._last_end > 0.5 * (end - start):
            # Behind a hole nothing says what was before it.
            self._low, self._ordinary = None, False
        self._last_end = end
        low, run = self._low, None
        if low is not None and value >= low.steady.low - SLACK:
            self._low, run = None, _judged(low)
        elif low is not None or (self._ordinary and self._steady is not None and value < self._steady.low - SLACK):
            self._below(start, end, value)
        self._look(value)
        return run

    def _below(self, start: float, end: float, value: float) -> None:
        if self._low is None and self._steady is not None:
            self._low = _Low(start, end, self._steady)
        low = self._low
        if low is None:
            return
        low.end = end
        low.lengths.append(end - start)
        low.values.append(value)
        if len(low.values) > min(LONGEST, low.steady.count // SHARE):
            self._low = None

    def _look(self, value: float) -> None:
        """What is steady after this window."""
        known = self._steady
        self._newest.append(value)
        if value >= LOWEST_LEVEL and (known is None or value >= ENTER * known.usual):
            self._seen.append(value)
            known = _steady(self._seen, BECOMES if known is None else STAYS)
        if len(self._newest) == STEADY and (known is None or max(self._newest) < known.low - SLACK):
            level = _steady(self._newest, 1.0)
            if level is not None:
                known = level
                self._seen = deque(self._newest, SEEN)
        self._steady = known
        self._ordinary = self._low is None and known is not None and value >= known.low - SLACK


def _steady(values: Sequence[float], share: float) -> _Steady | None:
    """The ordinary ones, where the highest so many of the values are of one level."""
    count = max(STEADY, min(len(values), int(share * len(values)) + 1))
    if len(values) < count:
        return None
    ordered = sorted(values, reverse=True)
    high, least = ordered[0], ordered[count - 1]
    near = [value for value in ordered if value >= high - SPREAD - SLACK]
    # The others are ordinary too as far as they lie no lower than those scatter, or are many.
    ordinary = [value for value in near if value >= 2 * least - high - SLACK]
    if len(near) - len(ordinary) > RARE * len(values):
        ordinary = near
    if high < LOWEST_LEVEL or ordinary[-1] > least:
        return None
    return _Steady(len(ordinary), ordinary[-1], median(ordinary), high)


def _judged(low: _Low) -> Run | None:
    """A run, where it falls and rises as steeply as gaps do, out of all scatter; what sags and recovers is none."""
    known = low.steady
    depths = [known.usual - value for value in low.values]
    for edge in (depths[:ONE_GAP], depths[-ONE_GAP:]):
        if sum(edge) < CLEAR - SLACK or max(edge) < SCATTER * (known.high - known.low) - SLACK:
            return None
    return Run(low.start, low.end, tuple(low.lengths), tuple(low.values), (known.low, known.usual, known.high))
