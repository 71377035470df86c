"""The range of time on screen: pure arithmetic on columns that lie on an absolute grid.

Column i covers (i * seconds, (i + 1) * seconds]. As the grid does not move with the clock, a rolling picture moves by
whole columns and what was drawn stays valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

_STEPS: Final = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
LADDER: Final = tuple(
    seconds for power in range(-5, 5) for step in _STEPS if (seconds := float(f"{step}e{power}")) <= 86400.0
)
"""Seconds a column may cover: neighbours are so close that what is fitted fills three quarters of a screen at least."""

SHORTEST, LONGEST, USUAL = 0.01, 3600.0, 60.0
"""Seconds of a whole screen."""


@dataclass(frozen=True, slots=True)
class View:
    """``right`` is the index of the last column; while ``following`` it holds the newest moment."""

    level: int
    columns: int
    right: int
    following: bool

    @property
    def seconds(self) -> float:
        return LADDER[self.level]

    @property
    def first(self) -> int:
        return self.right - self.columns + 1

    @property
    def start(self) -> float:
        return self.first * self.seconds

    @property
    def end(self) -> float:
        return (self.right + 1) * self.seconds

    @property
    def span(self) -> float:
        return self.columns * self.seconds

    def column_at(self, t: float) -> int:
        """The absolute column that holds t."""
        return _column(t, self.seconds)

    def time_at(self, column: int) -> float:
        """The middle of an absolute column."""
        return (column + 0.5) * self.seconds

    def shows(self, t: float) -> bool:
        return self.first <= self.column_at(t) <= self.right

    def follow(self, now: float) -> View:
        """The newest moment in the last column."""
        return replace(self, right=self.column_at(now), following=True)

    def advance(self, now: float) -> View:
        """A tick: a following view moves on, a held one stays."""
        return self.follow(now) if self.following else self

    def hold(self) -> View:
        return replace(self, following=False)

    def pan(self, columns: int, now: float) -> View:
        """Back or forth by columns, no further than the newest moment and the stream's start."""
        right = min(self.right + columns, self.column_at(now))
        return replace(self, right=max(right, min(self.right, self.columns // 2)), following=False)

    def zoom(self, steps: int, anchor: float, now: float) -> View:
        """Positive steps show less time; what was at ``anchor`` stays where it was. A following view follows on."""
        level = _clamped(self.level - steps, self.columns)
        if level == self.level or (level > self.level) is (steps > 0):  # at an end, or beyond: a long recording
            return self
        if self.following:
            return replace(self, level=level).follow(now)
        offset = min(max(self.column_at(anchor) - self.first, 0), self.columns - 1)
        first = _column(anchor, LADDER[level]) - offset
        return replace(self, level=level, right=first + self.columns - 1)

    def zoom_at(self, steps: int, anchor: float, now: float) -> View:
        """Zoom at a pointer: the picture stays there."""
        return self.hold().zoom(steps, anchor, now)

    def resize(self, columns: int, now: float) -> View:
        """Another width, the same end; the zoom stays within what a screen may show."""
        changed = replace(self, columns=columns, level=_clamped(self.level, columns))
        if self.following:
            return changed.follow(now)
        return replace(changed, right=_column(self.end - 1e-9, changed.seconds))

    def fit(self, start: float, end: float) -> View:
        """The closest zoom at which every column that [start, end] touches is on screen, centred; held. A recording of
        hours is shown whole too, although one cannot zoom out as far."""
        level = next(
            index
            for index, seconds in enumerate(LADDER)
            if (seconds * self.columns >= SHORTEST * 0.999 and _touched(start, end, seconds) <= self.columns)
            or index == len(LADDER) - 1
        )
        count = _touched(start, end, LADDER[level])
        right = _column(start, LADDER[level]) + count - 1 + (self.columns - count) // 2
        return replace(self, level=level, right=right, following=False)

    def centre(self, t: float) -> View:
        """The same zoom with t in the middle; held."""
        return replace(self, right=self.column_at(t) + (self.columns - 1) // 2, following=False)


def usual_view(columns: int, now: float) -> View:
    """About a minute, following."""
    level = min(range(len(LADDER)), key=lambda index: abs(LADDER[index] * columns - USUAL))
    return View(_clamped(level, columns), columns, 0, True).follow(now)


def _column(t: float, seconds: float) -> int:
    return math.floor(t / seconds + 1e-9)


def _touched(start: float, end: float, seconds: float) -> int:
    """How many columns of that width a stretch of time touches; one at least."""
    return max(1, _column(end - 1e-9, seconds) - _column(start, seconds) + 1)


def _clamped(level: int, columns: int) -> int:
    """Keep the screen between 10 ms and (the first step that shows all of) an hour."""
    lowest = next((index for index, s in enumerate(LADDER) if s * columns >= SHORTEST * 0.999), 0)
    highest = next((index for index, s in enumerate(LADDER) if s * columns >= LONGEST), len(LADDER) - 1)
    return min(max(level, lowest), highest)
