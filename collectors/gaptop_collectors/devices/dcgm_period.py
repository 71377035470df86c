"""How often an exporter's values change, found from when they were seen to change. Pure.

dcgm-exporter has DCGM update its fields each collection period (``-c``, 30 s unless told otherwise), and a scrape
between two collections shows the same values again. Each change is only known to lie between two scrapes; together
they bound the period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

FIRST_POLL_S: Final = 1.0
LEAST_POLL_S: Final = 0.5
MOST_POLL_S: Final = 5.0
POLLS: Final = 4
"""Scrapes a period, where that lies between the two above."""

KEPT: Final = 12
MOST_MISSED: Final = 6
"""Collections between two seen changes of which the period is still told: values may come out the same again."""
REFINED: Final = (4, 8, 12)
"""Numbers of changes at which a period that still fits is bounded anew, because it can be told more closely."""
CERTAIN: Final = 0.15
"""The period is known once it is bounded this closely (share of itself, either way)."""
JITTER: Final = 0.05
JITTER_S: Final = 0.25
"""Of the period, but no more seconds: DCGM and the exporter wake on timers of their own, behind other work."""
NARROW: Final = 0.7
"""Scrapes further apart than this share of the period cannot tell it from a shorter one."""
RECENT: Final = 8
FEWER: Final = 0.55
"""Of the expected number of changes: with so few, the period has become longer."""
NEAR: Final = 0.2
"""A period found anew within this share of the one known is that one, told more closely."""
SETTLED: Final = 4
"""Changes on one grid from which on a single one off it is not enough to doubt it."""
SKIPPING: Final = 5
"""So many changes of which no two are one period apart: the period has become longer."""
ODD: Final = 3
LATELY: Final = 6
"""So many of the last so many changes off the grid: it has become another. Fewer are collections that were seen half
done, or late."""
QUIET_PERIODS: Final = 6
STEP: Final = 0.005
"""Share of a period by which the next one tried is shorter."""


class Change(NamedTuple):
    """The values changed after one scrape and by the next one (seconds)."""

    after: float
    by: float


class CollectionPeriod:
    """Tell it of every scrape, in order. ``seconds`` is the period, None while it is not known."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.at_most = False
        """Values change at nearly every scrape, so the period may be shorter than told."""
        self._changes: deque[Change] = deque(maxlen=KEPT)
        self._lately: deque[tuple[Change, bool]] = deque(maxlen=LATELY)
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._last: float | None = None
        self._changed_at = 0.0
        self._search = FIRST_POLL_S

    @property
    def poll(self) -> float:
        """Seconds to the next scrape."""
        if self.seconds is None:
            return self._search
        return min(MOST_POLL_S, max(LEAST_POLL_S, self.seconds / POLLS))

    def interrupt(self) -> None:
        """Scrapes failed: the next one is compared with nothing. The period stays until it is seen to be another."""
        self._last = None
        self._recent.clear()
        self._lately.clear()
        self._changes.clear()

    def scraped(self, at: float, changed: bool) -> None:
        """A scrape came in at ``at`` seconds; ``changed``: its values differ from the scrape's before."""
        last, self._last = self._last, at
        if last is None:
            self._changed_at = at
            return
        self._recent.append(changed)
        if changed:
            self._changed_at = at
            self._changed(Change(last, at))
        if self.seconds is None:
            if self._too_often():
                self._look_closer()
        elif self._became_another(self.seconds, at):
            self._forget(FIRST_POLL_S)

    def _changed(self, change: Change) -> None:
        if self.seconds is None:
            self._changes.append(change)
            self._find()
        elif change.by - change.after <= NARROW * self.seconds:
            self._check(change, self.seconds)

    def _check(self, change: Change, period: float) -> None:
        """Whether a change agrees with the period that is known; a few that do not are collections seen half done."""
        together = [*self._changes, change]
        fits = on_grid(together, period)
        if not fits or len(together) in REFINED:
            low, high = bounds(together) or (0.0, 0.0)
            if abs(low + high - 2 * period) <= 2 * NEAR * period:
                self.seconds, fits = (low + high) / 2, True
        self._lately.append((change, fits))
        newest = [each for each, _ in self._lately]
        settled = len(self._changes) >= SETTLED
        if fits or not settled:
            self._changes.append(change)
        if _skips(newest[-SKIPPING:], period):
            self._restart(newest[-SKIPPING:])
        elif not settled and not fits:
            self._restart(self._changes)
        elif sum(not fitted for _, fitted in self._lately) >= ODD:
            self._restart(newest)

    def _restart(self, changes: Iterable[Change]) -> None:
        self._changes = deque(changes, KEPT)
        self._lately.clear()
        self._find()

    def _find(self) -> None:
        found = bounds(self._changes)
        if found is None:
            # It may have become another: what came last counts.
            self._changes = deque([*self._changes][-2:], KEPT)
            found = bounds(self._changes)
        low, high = found or (0.0, 1.0)
        middle, newest = (low + high) / 2, self._changes[-1]
        known = high - low <= 2 * CERTAIN * low and newest.by - newest.after <= NARROW * middle
        self.seconds = middle if known else None

    def _too_often(self) -> bool:
        """Nearly every scrape shows a change: their period cannot be told."""
        newest = list(self._recent)
        return newest[-3:] == [True] * 3 or (len(newest) == RECENT and sum(newest) > NARROW * RECENT)

    def _became_another(self, period: float, at: float) -> bool:
        if at - self._changed_at > QUIET_PERIODS * max(period, self.poll):
            return True
        if len(self._recent) < RECENT:
            return False
        expected, seen = RECENT * min(1.0, self.poll / period), sum(self._recent)
        return self.poll > NARROW * period and seen <= FEWER * expected

    def _look_closer(self) -> None:
        closest = self._search <= LEAST_POLL_S
        self._forget(LEAST_POLL_S)
        if closest:
            self.seconds, self.at_most = LEAST_POLL_S, True

    def _forget(self, search: float) -> None:
        self.seconds, self.at_most = None, False
        self._search = search
        self._lately.clear()
        self._changes.clear()
        self._recent.clear()


def bounds(changes: Sequence[Change]) -> tuple[float, float] | None:
    """Between which values the largest period lies that puts every change on one grid; None where none does."""
    if len(changes) < 2:
        return None
    widest = max(change.by - change.after for change in changes)
    closest = min(later.by - earlier.after for earlier, later in zip(changes, [*changes][1:], strict=False))
    period = closest + 2 * JITTER_S
    high = 0.0
    while period * NARROW >= widest or high:
        if on_grid(changes, period):
            high = high or period
        elif high:
            return period, high
        period *= 1 - STEP
    return None


def on_grid(changes: Sequence[Change], period: float) -> bool:
    """Whether all changes can lie on one grid of this period, each on a place of its own."""
    slack = min(JITTER_S, JITTER * period)
    low, high = changes[0].after - slack, changes[0].by + slack
    last = 0
    for change in [*changes][1:]:
        place = round(((change.after + change.by) - (low + high)) / 2 / period)
        if not last < place <= last + MOST_MISSED:
            return False
        last = place
        low = max(low, change.after - slack - place * period)
        high = min(high, change.by + slack - place * period)
        if low > high:
            return False
    return True


def _skips(newest: Sequence[Change], period: float) -> bool:
    return len(newest) == SKIPPING and all(
        later.by + later.after - earlier.by - earlier.after > 3 * period
        for earlier, later in zip(newest, newest[1:], strict=False)
    )
