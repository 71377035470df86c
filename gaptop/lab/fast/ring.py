"""The driver's ring of one GPU as the collector hands it on: entries in bunches, unusable ones, stamps that are off.

Repeats, disorder and what the ring held before do not get past the collector, so there is none here.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final, NamedTuple

from gaptop.lab.fast.device import Window
from gaptop_collectors.devices.nvml_ring import LAG_S

JITTER: Final = 0.0005
"""Seconds by which a stamp is off, at most, beside an offset that all of them have."""
OFFSET: Final = 0.002
"""Between the clock that the driver stamps with and ours."""
HELD: Final = (0.1, 0.4)
"""Seconds in which the ring stands still, least and most: after a second without an entry the collector would poll."""
NO_ENTRY: Final = "the driver's ring had no entry"


class Reading(NamedTuple):
    """``missed``: from when to when no window was seen before it."""

    stamp: float
    window: Window
    missed: tuple[float, float] | None


class Ring:
    """``late``: share of the time in which the ring stands still; ``lost``: of its entries that are unusable."""

    def __init__(self, window_s: float, lag: float, late: float, lost: float, rng: Random) -> None:
        self._window_s = window_s
        self._lost = lost
        self._rng = rng
        self._lag = lag + OFFSET * (2 * rng.random() - 1)
        self._each = sum(HELD) / 2 / late if late else float("inf")
        self._waiting: list[Window] = []
        self._opens = 0.0
        self._closes = rng.expovariate(1 / self._each) if late else float("inf")
        self._last: float | None = None

    def drain(self, new: Iterable[Window], now: float) -> list[Reading]:
        """What a drain finds; ``new``: the windows that have ended since the last one."""
        stood = now >= self._opens and bool(self._waiting)
        self._waiting += new
        if now >= self._closes and not stood:
            self._opens = now + self._rng.uniform(*HELD)
            self._closes = self._opens + self._rng.expovariate(1 / self._each)
        if now < self._opens:
            return []
        entries, self._waiting = self._waiting, []
        found = []
        for window in entries:
            if self._lost and self._rng.random() < self._lost:
                continue
            stamp = window.end + self._lag + JITTER * (2 * self._rng.random() - 1)
            missed = None
            if self._last is not None and stamp - self._last > 1.5 * self._window_s:
                missed = self._last - LAG_S, stamp - self._window_s - LAG_S
            self._last = stamp
            found.append(Reading(stamp, window, missed))
        return found
