"""Utilisation without a ring: what polling one counter can tell of its windows, and of their period. Pure.

The counter moves once a window, and says not when. A value read again is a repeat; a change happened between two polls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median, quantiles
from typing import Final

from gaptop_collectors.devices.nvml_ring import Period

CLOSE_S: Final = 0.03
"""Distance of polls while the period is learnt: at half a window nothing but half a window could come out."""
LATEST_S: Final = 0.06
"""A change that is placed between polls further apart tells nothing."""
CLOSE_FOR_S: Final = 5.0
AGAIN_S: Final = 60.0
CHANGES: Final = 8
"""Intervals between changes that are needed before a period is believed."""
MANY: Final = 20
"""Of so many intervals chance does not make FITTING agree, even where it makes nearly half of them."""
FITTING: Final = 0.9
FURTHER: Final = 1.3
"""Polls so many times further apart than W/2 are not merely a little late: stamps are less exact."""
SHORTEST_S: Final = 0.05
LONGEST_S: Final = 2.0


def change_period(intervals: Sequence[float], error_s: float) -> Period | None:
    """The window of a polled counter, from the seconds between changes of its value; None unless they agree.

    It is the largest P of which FITTING of the intervals are a whole multiple, within 5 % of P and ``error_s`` (half
    the distance of the polls: a change is placed between two of them). The median would not do: a value that happens
    to repeat hides changes (an A100 with W = 202 ms was seen to change after 4 to 6 W only).
    """
    told = [one for one in intervals if SHORTEST_S / 2 < one <= LONGEST_S + error_s]
    if len(told) < CHANGES:
        return None
    candidate = LONGEST_S
    # Below it, chance alone would make over a third (of many: over two fifths) of all intervals fit.
    shortest = max(SHORTEST_S, (6 if len(told) >= MANY else 9) * error_s)
    while candidate >= shortest:
        found = _refined(told, candidate, error_s)
        if found and found >= shortest:
            fitting = [(one, k) for one, k in _multiples(told, found) if abs(one - k * found) <= 0.05 * found + error_s]
            if len(fitting) >= FITTING * len(told):
                lower, _, upper = quantiles([one - (k - 1) * found for one, k in fitting], n=4)
                return Period(found, upper - lower, len(told))
        candidate *= 0.98
    return None


def _multiples(intervals: Sequence[float], period: float) -> list[tuple[float, int]]:
    return [(one, k) for one in intervals if (k := round(one / period))]


def _refined(intervals: Sequence[float], candidate: float, error_s: float) -> float | None:
    """The period near ``candidate`` that fits best (least squares), where the candidate fits most of them at all."""
    pairs = [
        (one, k)
        for one, k in _multiples(intervals, candidate)
        if abs(one - k * candidate) <= 0.05 * candidate + error_s
    ]
    if len(pairs) < FITTING * len(intervals):
        return None
    return sum(one * k for one, k in pairs) / sum(k * k for _, k in pairs)


class CloseLook:
    """Decides when to poll closely for the period, and what was learnt. Times in nanoseconds.

    It looks for CLOSE_FOR_S seconds once the counter has moved (an idle GPU has no period), and again after AGAIN_S;
    what one look saw too little of, the next one goes on with.
    """

    def __init__(self) -> None:
        self.period: Period | None = None
        self._until = 0
        self._next = 0
        self._changed: int | None = None
        self._polled: int | None = None
        self._reading: tuple[int, int] | None = None
        self._intervals: deque[float] = deque(maxlen=120)
        self._distances: deque[float] = deque(maxlen=120)

    def looking(self, now: int) -> bool:
        return now < self._until

    def stop(self) -> None:
        """Nothing is polled for a while."""
        self._until, self._changed = 0, None

    def read(self, now: int, reading: tuple[int, int]) -> Period | None:
        """One poll's reading; the period where this poll ends a look that found one."""
        before, self._polled = self._polled, now
        moved = self._reading is not None and reading != self._reading
        self._reading = reading
        if self._until and now >= self._until:
            self.stop()
            found = change_period(self._intervals, self._error_s)
            if found:
                self._intervals.clear()
                self._distances.clear()
                self.period = found
            return found
        if moved and not self._until and now >= self._next:
            self._until = now + int(CLOSE_FOR_S * 1e9)
            self._next = now + int(AGAIN_S * 1e9)
            self._changed = None
        elif moved and self._until and before is not None:
            if now - before > LATEST_S * 1e9:
                self._changed = None  # a poll that came late places the change too badly
                return None
            at = (before + now) // 2
            if self._changed is not None:
                self._intervals.append((at - self._changed) / 1e9)
                self._distances.append((now - before) / 1e9)
            self._changed = at
        return None

    @property
    def _error_s(self) -> float:
        """Half the distance of the polls as they came, but for the latest tenth: those count among what may not fit."""
        distances = sorted(self._distances)
        return distances[len(distances) * 9 // 10] / 2 if distances else CLOSE_S / 2


class PollGrid:
    """Turns polled readings into observations, one a window: the fallback where there is no ring.

    The counter moves once a window, so a value read again within a window is no news. The moment it moved lies between
    two polls; the grid (last + k·W) gives its stamp, and is moved when a change contradicts it. A value that stays is
    observed again each W. All times in nanoseconds; polled at W/2 or closer, a stamp is wrong by less than W/2, and
    else by less than the distance of the polls.
    """

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._last: int | None = None
        self._reading: tuple[int, int] | None = None
        self._polled: int | None = None
        self._distances: deque[int] = deque(maxlen=9)

    @property
    def error_s(self) -> float:
        """How wrong a stamp may be, in seconds."""
        half = self.window_ns / 2e9
        usual = median(self._distances) / 1e9 if self._distances else half
        return half if usual < FURTHER * half else round(usual, 2)

    def read(self, now: int, reading: tuple[int, int]) -> int | None:
        """The stamp of a new observation of ``reading`` (GPU and memory percent), or None for a repeat."""
        before, self._polled = self._polled, now
        changed = reading != self._reading
        self._reading = reading
        if self._last is None or before is None:
            self._last = now - self.window_ns // 2
            return self._last
        self._distances.append(now - before)
        expected = self._last + (now - self._last) // self.window_ns * self.window_ns
        if not changed and expected > before and now - before < self.window_ns // 4:
            return None  # the new value may be a little late, and comes by the next poll, which is soon
        if expected > max(self._last, before) or (expected > self._last and not changed):
            self._last = expected
        elif changed:
            self._last = max((before + now) // 2, self._last + 1)
        else:
            return None
        return self._last
