"""One or two windows clearly under their steady neighbours: a single gap shorter than a window shows as no more."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from gaptop.valleys.detect import LOWEST_LEVEL
from gaptop.valleys.plateau import SPREAD

STEADY: Final = 10
"""Windows looked back at, and windows of another level after which that one is the steady one."""

ENOUGH: Final = 5
LONGEST: Final = 2
"""Windows that one gap shorter than a window can touch."""

CLEAR: Final = 0.025
"""Of a window: more than two windows can differ by rounding (0.01), and than what idle drivers show (0.02)."""

SCATTER: Final = 3.0
"""A fall of three times the steady windows' whole spread is none of it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Low windows between ordinary ones: their bounds and readings, and the steady ones' lowest, median and highest."""

    start: float
    end: float
    lengths: tuple[float, ...]
    values: tuple[float, ...]
    steady: tuple[float, float, float]


@dataclass(slots=True)
class _Low:
    start: float
    end: float
    lengths: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class RunFinder:
    """Feed it the windows of one device in order."""

    def __init__(self) -> None:
        self._steady: deque[float] = deque(maxlen=STEADY)
        self._low: _Low | None = None
        self._last_end: float | None = None
        self._ordinary = False
        """Whether the last window was ordinary and the next one follows on it."""

    @property
    def floor(self) -> float | None:
        """The lowest of the steady windows before now; None while they are not steady."""
        known = self._known()
        return None if known is None else known[0]

    def feed(self, start: float, end: float, value: float) -> Run | None:
        """Take one window; returns the run that ended before it."""
        if self._last_end is not None and start - self._last_end > 0.5 * (end - start):
            self._low, self._ordinary = None, False
        self._last_end = end
        known = self._known()
        if known is None:
            self._low, self._ordinary = None, False
            self._steady.append(value)
            return None
        if value < known[0] - 1e-6:
            self._below(start, end, value)
            return None
        ended = self._close(known)
        self._steady.append(value)
        self._ordinary = True
        return ended

    def _known(self) -> tuple[float, float, float] | None:
        if len(self._steady) < ENOUGH:
            return None
        low, high = min(self._steady), max(self._steady)
        return (low, median(self._steady), high) if high - low <= SPREAD + 1e-6 and high >= LOWEST_LEVEL else None

    def _below(self, start: float, end: float, value: float) -> None:
        low = self._low
        if low is None:
            if not self._ordinary:
                # Behind a hole nothing says what was before it.
                self._steady.append(value)
                return
            low = self._low = _Low(start, end)
        low.end = end
        low.lengths.append(end - start)
        low.values.append(value)
        newest = low.values[-STEADY:]
        if len(newest) == STEADY and max(newest) - min(newest) <= SPREAD + 1e-6 and max(newest) >= LOWEST_LEVEL:
            self._steady.extend(newest)
            self._low, self._ordinary = None, True
        elif len(low.values) > 2 * STEADY:
            # Only the newest are looked at again: an hour of idle is no more to keep than a second.
            del low.values[:STEADY], low.lengths[:STEADY]

    def _close(self, known: tuple[float, float, float]) -> Run | None:
        low, self._low = self._low, None
        if low is None or len(low.values) > LONGEST:
            return None
        depth = sum(known[1] - value for value in low.values)
        if depth < max(CLEAR, SCATTER * (known[2] - known[0])) - 1e-6:
            self._steady.extend(low.values)
            return None
        return Run(low.start, low.end, tuple(low.lengths), tuple(low.values), known)
