"""Truth of the requests' progress: when requests ran and their tokens stood still or came far too slowly, and why.

The time between two of the engine's messages is a stall where fewer than half of the recent level's tokens came. Where
it took twice as long as decoding takes, or no decoding went on for half of it, or its length cost more tokens than the
size of its batch did, what lengthened it is the cause, piece by piece; otherwise too few requests ran, and what kept
the others from running is. Where more than half but far from all of them came, the same is told as ``Slow``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from gaptop.lab.core.causes import CAUSES
from gaptop.lab.core.events import Slow, Stall
from gaptop.lab.core.truth import Note

FAR_UNDER: Final = 0.5
UNDER: Final = 0.8
"""Shares of the recent level: what is far under it is a stall, what is under it slow."""

BUCKET: Final = 0.25
"""The level is the highest token rate over so many seconds..."""

HALF_LIFE: Final = 10.0
"""...and fades so fast (seconds)."""

SMALL: Final = 0.1
"""A piece that is a smaller share of the stall is not what it waited for."""

NEVER: Final = float("inf")


class Server(Protocol):
    """Whom to ask about a stall, at the moment of its message."""

    def usual(self, running: int) -> float:
        """Seconds between two messages while so many requests decode and nothing is wrong."""
        ...

    def untold(self) -> list[Note]:
        """What the idle device has waited for since its last work, up to now."""
        ...

    def too_few(self) -> str:
        """What keeps more requests from running, as a key of ``CAUSES``."""
        ...


class StallTruth:
    """One engine's: message() tells the stall that a message ends, if there was one."""

    def __init__(self) -> None:
        self._pieces: deque[Note] = deque()
        self._level = 0.0
        self._bucket = 0.0
        self._tokens = 0
        self.since = NEVER
        """Where the interval that is still open began; NEVER while nothing runs."""

    def runs(self, now: float) -> None:
        """Requests run from ``now`` on, if they did not before."""
        if self.since == NEVER:
            self.since = now

    def stopped(self) -> None:
        """Nothing runs any more, and no message tells of it."""
        self.since = NEVER

    def piece(self, start: float, end: float, waited_for: str) -> None:
        """Over [start, end) no ordinary decoding went on."""
        self._pieces.append((start, end, waited_for))

    def message(self, now: float, tokens: int, before: int, after: int, server: Server) -> Iterator[Stall | Slow]:
        """``tokens`` came at ``now``; ``before`` and ``after`` it so many requests ran."""
        since = self.since
        self.since = now if after else NEVER
        while now >= self._bucket + BUCKET:
            self._level = max(self._level * 0.5 ** (BUCKET / HALF_LIFE), self._tokens / BUCKET)
            self._bucket += BUCKET
            self._tokens = 0
        self._tokens += tokens
        expected = self._level * (now - since) if before and since < now else 0.0
        if tokens < FAR_UNDER * expected:
            yield from self._stalls(since, now, tokens, before, server)
        elif tokens < UNDER * expected:
            for stall in self._stalls(since, now, tokens, before, server):
                yield Slow(*stall, came=tokens / expected)
        pieces = self._pieces
        while pieces and pieces[0][1] <= now:
            pieces.popleft()

    def _stalls(self, since: float, now: float, tokens: int, running: int, server: Server) -> Iterator[Stall]:
        length = now - since
        known = [*self._pieces, *server.untold()]
        slow = [(max(each[0], since), min(each[1], now), each[2]) for each in known]
        slow = [each for each in slow if each[1] - each[0] >= SMALL * length]
        covered = sum(end - start for start, end, _ in slow)
        usual = server.usual(running)
        by_few = length * tokens < self._level * usual * usual
        if not slow or (length < 2 * usual and covered < length / 2 and by_few):
            waited_for = server.too_few()
            yield Stall(since, now, waited_for, CAUSES[waited_for])
            return
        slow.sort()
        start = since
        for index, (_, end, waited_for) in enumerate(slow):
            if index + 1 == len(slow):
                end = now
            elif slow[index + 1][2] == waited_for:
                continue
            if end > start:
                yield Stall(start, end, waited_for, CAUSES[waited_for])
                start = end


class Untold(StallTruth):
    """For an engine that only computes prompts: its requests' tokens are another's business."""

    def runs(self, now: float) -> None:
        """See StallTruth."""

    def message(self, now: float, tokens: int, before: int, after: int, server: Server) -> Iterator[Stall | Slow]:
        """Nothing to tell."""
        self._pieces.clear()
        return iter(())
