"""Prefill and decode on devices of their own: requests with their first token cross a link with their KV cache."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from gaptop.lab.core.events import Event
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.inlet import FrontInlet
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.requests import Request
from gaptop.lab.core.scheduler import Scheduler

if TYPE_CHECKING:
    from gaptop.lab.core.engine import Engine

NEVER = float("inf")


class Link:
    """The decode engine's inlet. One transfer after the other; its blocks on the prefill device stay taken meanwhile.

    The engine that is behind in time runs first, so neither may sleep beyond the moment at which the other could do
    something: ``next_event`` of both inlets says when that is.
    """

    def __init__(self, machine: Machine, prefill: Scheduler, front: FrontEnd) -> None:
        self._machine = machine
        self._prefill = prefill
        self._front = front
        self._free = 0.0
        self._under_way: list[tuple[float, int, float, Request]] = []
        self.engines: tuple[Engine, Engine]

    def send(self, now: float, sampled: list[Request]) -> None:
        """Requests that have their first token go to the decode device."""
        for request in sampled:
            if request.delivered == request.wish.output:
                continue
            self._free = max(self._free, now) + self._machine.model.moving(
                request.computed, self._machine.config.kv_transfer_bandwidth
            )
            self._prefill.running.remove(request)
            self._prefill.leaving.append(request)
            heapq.heappush(self._under_way, (self._free, request.id, now, request))

    def take(self, now: float) -> list[Request]:
        """See ``engine.Inlet``."""
        arrived = []
        while self._under_way and self._under_way[0][0] <= now:
            request = heapq.heappop(self._under_way)[3]
            if request.aborted:
                continue
            self._prefill.leaving.remove(request)
            self._prefill.pool.free(request)
            request.carried = True
            request.limit = request.wish.output
            arrived.append(request)
        return arrived

    def next_event(self, now: float) -> float:
        """See ``engine.Inlet``."""
        return min(self.next_arrival(), self._other(0, now, self._front.next_event()))

    def held_by(self, now: float) -> tuple[str, float] | None:
        """See ``engine.Inlet``."""
        if self._under_way:
            arrives, _, sent, _ = self._under_way[0]
            return ("kv_transfer", arrives) if sent <= now else ("prefill", sent)
        if self._prefill.running or self._prefill.waiting:
            return "prefill", NEVER
        return self._front.held_by(now)

    def oldest(self) -> float:
        """See ``engine.Inlet``."""
        return self._under_way[0][2] if self._under_way else self._front.oldest()

    def next_arrival(self) -> float:
        """When the next request reaches the decode device."""
        return self._under_way[0][0] if self._under_way else NEVER

    def decode_may_act(self, now: float) -> float:
        """Not before this can the decode device make a client ask again."""
        return self._other(1, now, self.next_arrival())

    def _other(self, index: int, now: float, wakes: float) -> float:
        other = self.engines[index]
        if other.now > now:
            return other.now
        return wakes if other.asleep else now


class PrefillInlet(FrontInlet):
    """The front end, as the prefill engine sees it."""

    def __init__(self, front: FrontEnd, add: Callable[[Event], None], link: Link) -> None:
        super().__init__(front, add)
        self._link = link

    def take(self, now: float) -> list[Request]:
        """See ``engine.Inlet``."""
        arrived = super().take(now)
        for request in arrived:
            request.limit = 1
        return arrived

    def next_event(self, now: float) -> float:
        """See ``engine.Inlet``."""
        return min(self.front.next_event(), self._link.decode_may_act(now))
