"""Progress valleys: tokens (or steps) flat or far under their recent level while requests wait for them.

Works on the intervals between two readings of the counter. What is expected of an interval is the recent level, or the
recent rate per request times the requests, whichever is lower: one request left over is not a stall, and a queue that
grows in front of a server at its limit is not one either.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from gaptop.valleys.usual import DEMAND, Usual

ENTER: Final = 0.5
"""Under half of what is expected a valley opens."""

LEAVE: Final = 0.7
"""Above this share it ends; steady servers scatter by 10-20 % between readings."""

FLAT: Final = 0.02
"""Under 2 % of the level nothing moves."""

MIN_FLAT: Final = 0.4
"""Shortest flat valley, and shortest recovery, in seconds: one interval at the default of two readings a second."""

MIN_LOW: Final = 1.0
"""Shortest valley in seconds where some tokens still come: two intervals at least, one alone is scatter."""

FLAT_STEPS: Final = 3.0
"""Steps that must be missing before "flat" is more than the wait for the next step."""

LOW_STEPS: Final = 8.0
"""Steps that must have been due before "few" is more than the luck of how many fell between two readings."""

BRIDGE: Final = 2.0
"""Readings that stay away this long end a valley: what went on meanwhile is not known."""

RELEARN_SECONDS: Final = 60.0
"""Tokens that flow steadily at a lower rate for this long make a new level; a standstill stays one valley."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Progress between two readings. ``demand`` is the lower of the requests (running and waiting) at its two ends,
    None where they were not seen."""

    start: float
    end: float
    rate: float
    demand: float | None
    steps: float | None = None
    """Engine steps a second; tokens come in lumps of one step."""
    start_doubt: float = 0.0
    end_doubt: float = 0.0
    """Seconds by which its readings may be older: when the server took the values of a slow answer is known less well.
    """

    @property
    def sure(self) -> float:
        """Seconds that it lasted at least."""
        return max(0.0, self.end - self.start - self.end_doubt)


@dataclass(slots=True)
class Stall:
    """One progress valley of one server. ``end`` is None while it is open."""

    level: float
    start: float
    end: float | None
    start_error: float
    end_error: float
    last: float
    units: float = 0.0
    seconds: float = 0.0
    expected: float = 0.0
    became_level: bool = False
    """It did not end by a rise: the lower rate lasted until that counted as the server's level."""

    @property
    def depth(self) -> float:
        """Share of the expected progress that did not come, 0..1."""
        return min(1.0, max(0.0, 1.0 - self.units / self.expected)) if self.expected > 0 else 0.0


class StallDetector:
    """Finds the progress valleys of one server. Feed it the intervals in order."""

    def __init__(self, *, silences: bool) -> None:
        self.silences = silences
        """Whether silence without any request is marked too: only where no device stands for it."""
        self.open: Stall | None = None
        self.reached = 0.0
        self._usual = Usual()
        self._pending: list[Interval] = []
        self._fresh: deque[Interval] = deque()

    @property
    def level(self) -> float | None:
        return self._usual.level if self.open is None else self.open.level

    def feed(self, item: Interval) -> Stall | None:
        """Take one interval; returns a valley that ended with it."""
        ended = None
        if item.start > self.reached + 1e-6 and self.reached > 0.0:
            ended = self._hole(item.start - self.reached)
        self.reached = item.end
        level = self.level
        if level is None:
            self._learn(item)
            return ended
        expected = self._expected(item, level)
        if self.open is not None:
            return self._inside(self.open, item, expected)
        if self._opens(item, level, expected, LEAVE if self._pending else ENTER):
            self._pending.append(item)
            seconds = sum(part.sure for part in self._pending)
            flat = all(part.rate <= FLAT * level for part in self._pending)
            if seconds >= self._shortest(flat) - 1e-6:
                self._begin(level)
        else:
            self._pending.clear()
            self._learn(item)
        return ended

    def interrupted(self, t: float) -> Stall | None:
        """Nothing will come up to ``t``: a valley that is open ends with its last reading, and says so in its error."""
        return self._hole(t - self.reached) if t - self.reached > BRIDGE else None

    def close(self) -> Stall | None:
        """The stream ended: what is open ends with the last reading."""
        return None if self.open is None else self._finish(self.open, self.open.last, self.open.end_error)

    def _learn(self, item: Interval) -> None:
        self._usual.add(item.start, item.end, item.rate, item.steps, item.demand)

    def _shortest(self, flat: bool) -> float:
        """Seconds that a valley must last: long enough for several of the usual steps to have been due."""
        usual = self._usual.steps or math.inf
        return max(MIN_FLAT, FLAT_STEPS / usual) if flat else max(MIN_LOW, LOW_STEPS / usual)

    def _expected(self, item: Interval, level: float) -> float | None:
        """Units a second that should come; None where the requests were not seen."""
        if item.demand is None:
            return None
        if item.demand < DEMAND:
            return 0.0
        return self._usual.expected(item.demand, level)

    def _low(self, item: Interval, level: float, expected: float | None, share: float) -> bool:
        if expected is None:
            return False
        if expected == 0.0:
            return self.silences and item.rate <= FLAT * level
        return item.rate < share * expected

    def _opens(self, item: Interval, level: float, expected: float | None, share: float) -> bool:
        """Whether it is low also if its last reading is as old as it may be."""
        if item.sure <= 0.0:
            return False
        rate = item.rate * (item.end - item.start) / item.sure
        return self._low(replace(item, rate=rate), level, expected, share)

    def _begin(self, level: float) -> None:
        first = self._pending[0]
        self.open = stall = Stall(
            level=level,
            start=first.start,
            end=None,
            start_error=first.end - first.start + first.start_doubt,
            end_error=first.end - first.start + first.end_doubt,
            last=first.end,
        )
        for item in self._pending:
            self._add(stall, item)
        self._pending.clear()
        self._fresh.clear()

    def _add(self, stall: Stall, item: Interval) -> None:
        seconds = item.end - item.start
        stall.units += item.rate * seconds
        stall.seconds += seconds
        stall.expected += (self._expected(item, stall.level) or stall.level) * seconds
        stall.last = item.end
        stall.end_error = seconds + item.end_doubt

    def _inside(self, stall: Stall, item: Interval, expected: float | None) -> Stall | None:
        back = expected if not expected or not item.demand else self._usual.ordinary(item.demand, expected)
        if not self._low(item, stall.level, back, LEAVE):
            self._pending.append(item)
            first = self._pending[0]
            if item.end - first.start < MIN_FLAT - 1e-6:
                return None
            for part in self._pending:
                self._learn(part)
            self._pending.clear()
            return self._finish(stall, first.start, first.end - first.start + first.start_doubt)
        for part in (*self._pending, item):
            self._add(stall, part)
        self._pending.clear()
        self._fresh.append(item)
        while self._fresh and item.end - self._fresh[0].start > RELEARN_SECONDS:
            self._fresh.popleft()
        span = item.end - self._fresh[0].start if self._fresh else 0.0
        moving = [part for part in self._fresh if part.rate > FLAT * stall.level]
        if span >= RELEARN_SECONDS * 0.95 and len(moving) > 0.5 * len(self._fresh):
            self._usual.clear()
            for part in self._fresh:
                self._learn(part)
            stall.became_level = True
            return self._finish(stall, item.end, item.end - item.start)
        return None

    def _hole(self, seconds: float) -> Stall | None:
        self._pending.clear()
        if self.open is None:
            return None
        return self._finish(self.open, self.open.last, self.open.end_error + seconds)

    def _finish(self, stall: Stall, end: float, error: float) -> Stall:
        self.open = None
        stall.end = end
        stall.end_error = error
        return stall
