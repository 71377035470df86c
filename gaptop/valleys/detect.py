"""Utilisation valleys: a device's duty cycle falls under a share of its own recent busy level, with hysteresis."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

from gaptop.valleys.grid import CELL
from gaptop.valleys.level import Level
from gaptop.valleys.rounding import WHOLE

ENTER: Final = 0.5
"""Under half of the busy level a valley opens: a 300 ms gap leaves at least one 200 ms window at 25 % or less."""

LEAVE: Final = 0.75
"""Above three quarters it ends: more than the spread of a steady plateau away from the opening threshold."""

EDGE: Final = 0.05
"""A window next to the valley that lies this far under the level holds a part of it (plateaus spread over 3 points)."""

ACTIVE: Final = 0.05
"""Readings of 1-2 % appear on idle devices by themselves; activity starts above that."""

LOWEST_LEVEL: Final = 0.10
"""Under a busy level of 10 % a fall by half is within what an idle device shows by itself."""

LEVEL_SECONDS: Final = 30.0
"""The level looks back over this much active time."""

LEARN_SECONDS: Final = 0.5
"""Active time before a device has a level: about three windows."""

LEVEL_QUANTILE: Final = 0.9

MIN_LENGTH: Final = 0.15
"""Shortest valley in seconds, or one window where that is longer: less is a single reading's noise."""

BRIDGE: Final = 0.5
"""A lack of readings up to this long does not end a valley; it is not counted as idle either."""

RELEARN_SECONDS: Final = 60.0
"""A device that works steadily at a lower level for this long has a new level; true idle stays one valley."""

RELEARN_WINDOWS: Final = 10
"""And for so many windows: those of a dcgm-exporter last 30 s, and two of them are no level."""


RECENT_CELLS: Final = 64
"""Cells kept to find a valley's first edge: more than the opening streak and one window take."""


@dataclass(slots=True)
class Dip:
    """One utilisation valley of one device, in seconds since the stream's start. ``end`` is None while it is open."""

    source: str
    level: float
    start: float
    end: float | None
    start_error: float
    end_error: float
    low_end: float
    idle: float = 0.0
    seconds: float = 0.0
    partial_windows: float = 0.0
    became_level: bool = False
    """It did not end by a rise: what it fell to lasted until that counted as the device's level."""
    floor: float | None = None
    """The lowest reading of the steady windows before it; None where those were not steady."""
    rounding: str = ""
    """How its readings were made whole per cents, as far as known when it began."""
    not_before: float = -math.inf
    """The end of the device's valley before it."""

    @property
    def depth(self) -> float:
        """How far under the level the mean of the valley lies, 0..1."""
        return max(0.0, 1.0 - (1.0 - self.idle / self.seconds) / self.level) if self.seconds else 0.0


class DipDetector:
    """Finds the valleys of one device. Feed it every cell in order; NaN is a cell without a reading."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.window = 0.2
        self.open: Dip | None = None
        self._level = Level(int(LEVEL_SECONDS / CELL), LEVEL_QUANTILE)
        self._fresh = Level(int(RELEARN_SECONDS / CELL), LEVEL_QUANTILE)
        self._inside_seconds = 0.0
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT_CELLS)
        self._deep_since: int | None = None
        self._deep_cells = 0
        self._shallow_cells = 0
        self._missing = 0
        self._hole_before = 0.0
        self._at_hole: Dip | None = None
        self._last_good = -1

    @property
    def level(self) -> float | None:
        """The busy level, frozen while a valley is open; None while there is none."""
        if self.open is not None:
            return self.open.level
        value = self._level.value
        if value is None or value < LOWEST_LEVEL or len(self._level) * CELL < LEARN_SECONDS:
            return None
        return value

    def feed(self, cell: int, value: float) -> Dip | None:
        """Take one cell; returns a valley that ended with it."""
        if math.isnan(value):
            return self._miss()
        if self._missing:
            self._hole_before = self._missing * CELL
            self._missing = 0
            self._at_hole = None
        self._last_good = cell
        if self.open is not None:
            return self._inside(self.open, cell, value)
        level = self.level
        if level is not None and value < LEAVE * level:
            self._below(cell, value, level)
        else:
            self._forget_streak()
            self._hole_before = 0.0
        if self.open is None:
            if value > ACTIVE and (level is None or value >= ENTER * level):
                self._level.add(value)
            self._recent.append((cell, value))
        return None

    def _forget_streak(self) -> None:
        self._deep_since = None
        self._deep_cells = 0
        self._shallow_cells = 0

    def _below(self, cell: int, value: float, level: float) -> None:
        if value < ENTER * level:
            if self._deep_since is None:
                self._deep_since = cell
            self._deep_cells += 1
            self._shallow_cells = 0
        else:
            self._shallow_cells += 1
            if self._shallow_cells * CELL > self.window:
                self._forget_streak()
        if self._deep_since is not None and self._deep_cells * CELL + 1e-9 >= max(MIN_LENGTH, 0.75 * self.window):
            self._begin(self._deep_since, cell, value, level)

    def _begin(self, first: int, cell: int, value: float, level: float) -> None:
        edge = first
        for index, before in reversed(self._recent):
            if index < first:
                if index != edge - 1 or before > level - EDGE or (first - index) * CELL > self.window + 1e-9:
                    break
                edge = index
        self.open = dip = Dip(
            source=self.source,
            level=level,
            start=edge * CELL,
            end=None,
            start_error=self.window + self._hole_before,
            end_error=self.window,
            low_end=(cell + 1) * CELL,
        )
        for index, before in self._recent:
            if index >= edge:
                self._add(dip, before)
        self._add(dip, value)
        self._fresh.clear()
        self._inside_seconds = 0.0
        self._recent.clear()
        self._forget_streak()

    def _add(self, dip: Dip, value: float) -> None:
        dip.idle += (1.0 - value) * CELL
        dip.seconds += CELL
        if WHOLE < value < 1.0 - WHOLE:
            dip.partial_windows += CELL / self.window

    def _inside(self, dip: Dip, cell: int, value: float) -> Dip | None:
        if value >= LEAVE * dip.level:
            # The window in which the device came back holds the valley's last part.
            if value < dip.level - EDGE and (cell + 1) * CELL - dip.low_end <= self.window + 1e-9:
                self._add(dip, value)
                return None
            self._recent.append((cell, value))
            self._level.add(value)
            return self._finish(dip, cell * CELL)
        self._add(dip, value)
        dip.low_end = (cell + 1) * CELL
        self._fresh.add(value)
        self._inside_seconds += CELL
        lasts = max(RELEARN_SECONDS, RELEARN_WINDOWS * self.window)
        if self._inside_seconds >= lasts - 1e-6 and (self._fresh.value or 0.0) >= LOWEST_LEVEL:
            self._level.clear()
            dip.became_level = True
            return self._finish(dip, dip.low_end)
        return None

    def _miss(self) -> Dip | None:
        self._missing += 1
        if self._at_hole is not None:
            self._at_hole.end_error += CELL
        if self._missing * CELL <= BRIDGE:
            return None
        self._forget_streak()
        self._recent.clear()
        if self.open is None:
            return None
        ended = self._finish(self.open, (self._last_good + 1) * CELL)
        ended.end_error += self._missing * CELL
        self._at_hole = ended
        return ended

    def _finish(self, dip: Dip, end: float) -> Dip:
        self.open = None
        self._hole_before = 0.0
        dip.end = max(end, dip.low_end) if self._missing == 0 else end
        return dip
