"""The front end: clients' wishes become requests, their images are resized, their prompts tokenised, and they reach the
scheduler."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.cpu import Core
from gaptop.lab.core.events import HostSpan, Open
from gaptop.lab.core.loads import Load
from gaptop.lab.core.model import HostModel
from gaptop.lab.core.requests import Request, Wish
from gaptop.lab.core.scenario import Scenario

NEVER: Final = float("inf")

Held = list[tuple[float, str]]
"""What a request in the front end waits for, and until when; in order of time."""


@dataclass(slots=True)
class _Worker:
    name: str
    core: Core
    free: float = 0.0


@dataclass(slots=True, order=True)
class _Coming:
    ready: float
    number: int
    request: Request = field(compare=False)
    held: Held = field(compare=False)


class FrontEnd:
    """A pool of tokeniser threads (one by default, as vLLM has). A cycle is made ready ``lead`` seconds before its
    time 0."""

    def __init__(self, scenario: Scenario, seed: int, host: HostModel, faults: Faults) -> None:
        self._scenario = scenario
        self._seed = seed
        self._host = host
        self._faults = faults
        self._sources: list[tuple[Load, Random, float]] = []
        self._wishes: list[tuple[float, int, int, Wish]] = []
        self._coming: list[_Coming] = []
        names = ["tokenizer", *(f"tokenizer/{each}" for each in range(1, scenario.engine.tokenizer_workers))]
        self._workers = [_Worker(name, Core(faults)) for name in names]
        self._count = 0
        self._cycles = 0
        self._begin_cycle()

    def next_event(self) -> float:
        """The earliest time at which something happens here: a wish, or a tokenised request."""
        coming = self._coming[0].ready if self._coming else NEVER
        wish = self._wishes[0][0] if self._wishes else NEVER
        return min(coming, wish, self._next_cycle())

    def held_by(self, now: float) -> tuple[str, float] | None:
        """What the request that comes next waits for here, and until when; None where the front end has none."""
        if not self._coming:
            return None
        for until, waited_for in self._coming[0].held:
            if until > now:
                return waited_for, until
        return "tokenize", self._coming[0].ready

    def oldest(self) -> float:
        """When the client of the request that comes next sent it; NEVER where there is none."""
        return self._coming[0].request.arrived if self._coming else NEVER

    def take(self, now: float) -> tuple[list[Request], list[HostSpan | Open]]:
        """Requests that reach the scheduler by ``now``, those that came to the server, and what the tokenisers did
        (spans that begin by ``now``)."""
        spans: list[HostSpan | Open] = []
        while True:
            begin = self._next_cycle()
            wish = self._wishes[0][0] if self._wishes else NEVER
            if begin <= now and begin <= wish:
                self._begin_cycle()
            elif wish <= now:
                spans.append(Open(wish, 1))
                spans += self._handle(*heapq.heappop(self._wishes)[1:])
            else:
                break
        arrived = []
        while self._coming and self._coming[0].ready <= now:
            arrived.append(heapq.heappop(self._coming).request)
        return arrived, spans

    def answered(self, request: Request, time: float) -> None:
        """The client of ``request`` has its last token: it may ask again."""
        load, rng, base = self._sources[request.source]
        wish = load.then(rng, base, time)
        if wish is not None:
            self._push(request.source, wish)

    def abort(self, again: float) -> list[Request]:
        """Forget every request that has not reached the scheduler; returns them. Clients that were about to ask wait
        until ``again``."""
        gone = [each.request for each in self._coming]
        self._coming.clear()
        self._wishes = [
            (max(time, again), number, source, wish._replace(time=max(time, again)))
            for time, number, source, wish in self._wishes
        ]
        heapq.heapify(self._wishes)
        return gone

    def _next_cycle(self) -> float:
        return self._cycles * self._scenario.period - self._scenario.lead

    def _begin_cycle(self) -> None:
        base = self._cycles * self._scenario.period
        self._faults.begin_cycle(base, self._scenario.period)
        for index, load in enumerate(self._scenario.loads):
            rng = Random(f"{self._seed}/{self._cycles}/{index}")
            self._sources.append((load, rng, base))
            for wish in load.first(rng, base):
                self._push(len(self._sources) - 1, wish)
        self._cycles += 1

    def _push(self, source: int, wish: Wish) -> None:
        self._count += 1
        heapq.heappush(self._wishes, (wish.time, self._count, source, wish))

    def _handle(self, number: int, source: int, wish: Wish) -> list[HostSpan]:
        worker = min(self._workers, key=lambda each: each.free)
        start = max(wish.time, worker.free)
        if start > worker.free:
            worker.core.woke()
        held: Held = []
        spans: list[HostSpan] = []
        stopped = self._faults.lasting("stop", start)
        if stopped is not None:
            start = stopped.end
            held.append((start, "stopped"))
        slow = self._faults.strike("multimodal", start)
        if wish.images or slow:
            cost = self._host.cost("multimodal", wish.images) + slow
            start = self._work(worker, start, "multimodal", cost, spans, held)
        cost = self._host.cost("tokenize", wish.prompt) + self._faults.strike("tokenize", start)
        worker.free = self._work(worker, start, "tokenize", cost, spans, held)
        request = Request(number, wish, source, wish.time, worker.free)
        heapq.heappush(self._coming, _Coming(worker.free, number, request, held))
        return spans

    @staticmethod
    def _work(worker: _Worker, start: float, phase: str, seconds: float, spans: list[HostSpan], held: Held) -> float:
        for begin, end, held_by in worker.core.run(start, seconds):
            spans.append(HostSpan(begin, end, worker.name, phase, False, bool(held_by)))
            held.append((end, held_by or phase))
            start = end
        return start
