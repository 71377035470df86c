"""The valleys that are final, and what all of them cost: each device-second and each token is told once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import ledger
from gaptop.valleys.around import sampled
from gaptop.valleys.episode import Episode
from gaptop.valleys.idle_time import Taken, by_cause
from gaptop.valleys.member import Watched
from gaptop.valleys.model import LedgerRow, Valley
from gaptop.valleys.recurring import Recurring

KEPT: Final = 1000
"""Valleys kept whole; older ones live on in the ledger."""

LEVELS_KEPT: Final = 50
RECENT: Final = 64
"""Final valleys, newest last, among which one that overlaps in time is looked for."""

SPOKEN_FOR: Final = 0.5
"""A progress valley that a utilisation valley shares for half of its length is the same event."""

Told = tuple[Valley, str]
"""A valley and its server."""


class Accounts:
    """Takes final valleys; tells those that are still being judged in the same terms."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._taken = Taken()
        """The time that final valleys tell of, or that is told otherwise."""
        self.recurring = Recurring()
        self._counted: dict[str, float] = {}
        """Up to when the readings of each device count, by source."""
        self.final: list[Valley] = []
        self.levels: list[Valley] = []
        """The newest ones that became the usual level."""
        self._servers: dict[str, str] = {}
        self._losses: dict[tuple[str, str], ledger.Loss] = {}
        self._ids: set[str] = set()

    def watch(self, devices: Iterable[Watched]) -> None:
        """How far each device has been followed."""
        for item in devices:
            self._counted[item.source] = item.counted_to_s
            if item.judged_from_s is not None:
                self._taken.until(item.source, item.judged_from_s)

    def new_id(self, kind: str, start: float) -> str:
        """A name for a valley that no other one has."""
        name = f"{kind[0]}{start:.2f}"
        unique, count = name, 1
        while unique in self._ids:
            count += 1
            unique = f"{name}-{count}"
        self._ids.add(unique)
        return unique

    def settle(self, done: Sequence[Episode], going: Sequence[Episode], now: float) -> None:
        """Book the final ones among the episodes; those that another valley speaks for are dropped."""
        for episode in sorted(done, key=lambda item: (item.kind != "utilisation", item.start)):
            if episode.valley is None or self.covered(episode, going, now):
                continue
            # Those that are final come last: what they tell is their own already.
            others = [*_told((*done, *going)), *self._told_finally(len(self.final))]
            valley = with_own_tokens(episode.valley, episode.server, others)
            self.final.append(valley)
            self._servers[valley.id] = episode.server
            sample = sampled(self._timeline, valley, episode.scope.metrics, episode.server, episode.before)
            if sample is not None:
                self.recurring.add(sample)
            idle = by_cause(self._timeline, valley, self._taken, counted=self._counted)
            self._losses = ledger.add_up((*self._losses.values(), *ledger.losses(valley, episode.server, idle)))
            if valley.became_level:
                self.levels = [*self.levels[1 - LEVELS_KEPT :], valley]
        self.final.sort(key=lambda item: (item.start_s, item.id))
        for old in self.final[:-KEPT]:
            self._ids.discard(old.id)
            self._servers.pop(old.id)
        del self.final[:-KEPT]

    def covered(self, episode: Episode, going: Sequence[Episode], now: float) -> bool:
        """Whether it is not to be told: it was refuted, or a utilisation valley speaks for the same time and tokens.

        Two final verdicts that differ are both kept, unless the progress valley's own is no more than a guess.
        """
        valley = episode.valley
        if episode.kind != "progress" or valley is None:
            return False
        if episode.refuted:
            return True
        length = episode.reached() - episode.start
        labels = {device.label for device in episode.scope.devices}
        others = [item.valley for item in going if item is not episode and item.valley is not None]
        for other in (*reversed(self.final[-RECENT:]), *others):
            if other.kind != "utilisation" or not labels & set(other.devices):
                continue
            end = now if other.end_s is None else other.end_s
            shared = min(end, episode.reached()) - max(other.start_s, episode.start)
            guess = not episode.final or valley.verdict.confidence == "low"
            if shared >= SPOKEN_FOR * length and (guess or other.verdict.cause == valley.verdict.cause):
                return True
        return False

    def open_ones(self, going: Sequence[Episode], now: float) -> list[Told]:
        """The valleys that are not final yet, as far as they are told, with their servers."""
        told = _told(item for item in going if not self.covered(item, going, now))
        others = [*told, *self._told_finally(RECENT)]
        dips = [(with_own_tokens(item, server, others), server) for item, server in told if item.kind == "utilisation"]
        others = [*dips, *self._told_finally(RECENT)]
        stalls = [(with_own_tokens(item, server, others), server) for item, server in told if item.kind == "progress"]
        return [*dips, *stalls]

    def rows(self, times: Sequence[ledger.DeviceTime], going: Iterable[Told]) -> tuple[LedgerRow, ...]:
        """The ledger of everything so far."""
        taken = Taken(self._taken)
        lost = [
            loss
            for valley, server in going
            for loss in ledger.losses(valley, server, by_cause(self._timeline, valley, taken, counted=self._counted))
        ]
        return ledger.rows(times, (*self._losses.values(), *lost))

    def _told_finally(self, newest: int) -> list[Told]:
        return [(valley, self._servers[valley.id]) for valley in self.final[-newest:]] if newest else []


def _told(episodes: Iterable[Episode]) -> list[Told]:
    return [(item.valley, item.server) for item in episodes if item.valley is not None]


def with_own_tokens(valley: Valley, server: str, others: Iterable[Told]) -> Valley:
    """The valley with the tokens that are told with it alone: those of a server belong to its standstill as a whole.

    A progress valley leaves to a utilisation valley inside it what that one tells; utilisation valleys of several
    devices at the same time share them evenly.
    """
    if not valley.tokens_lost:
        return valley
    end = ledger.reached(valley)
    found: dict[str, Valley] = {}
    for other, whose in others:
        meanwhile = other.start_s < end and ledger.reached(other) > valley.start_s
        if (
            meanwhile
            and whose == server
            and other.kind == "utilisation"
            and other.tokens_lost
            and other.id != valley.id
        ):
            found[other.id] = other
    if not found:
        return valley
    if valley.kind == "progress":
        told = sum(
            (other.tokens_lost or 0.0) * _shared(other, valley) / (ledger.reached(other) - other.start_s)
            for other in found.values()
        )
        tokens = max(0.0, valley.tokens_lost - told)
    else:
        tokens = valley.tokens_lost * _own_share(valley, list(found.values()))
    return replace(valley, tokens_lost=tokens, tokens_shared_with=tuple(sorted(found)))


def _shared(first: Valley, second: Valley) -> float:
    """Seconds that two valleys have in common."""
    return max(0.0, min(ledger.reached(first), ledger.reached(second)) - max(first.start_s, second.start_s))


def _own_share(valley: Valley, others: Sequence[Valley]) -> float:
    """Share of a valley's time that is its own, where each moment is divided among all that it belongs to."""
    start, end = valley.start_s, ledger.reached(valley)
    edges = {start, end, *(item.start_s for item in others), *(ledger.reached(item) for item in others)}
    inside = sorted(edge for edge in edges if start <= edge <= end)
    own = 0.0
    for first, last in zip(inside, inside[1:], strict=False):
        middle = (first + last) / 2
        own += (last - first) / (1 + sum(item.start_s < middle < ledger.reached(item) for item in others))
    return own / (end - start)
