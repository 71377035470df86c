"""The front end: clients' wishes become requests, are tokenised one after the other, and reach the scheduler."""

from __future__ import annotations

import heapq
from random import Random

from gaptop.lab.core.events import HostSpan
from gaptop.lab.core.faults import Faults
from gaptop.lab.core.loads import Load
from gaptop.lab.core.model import HostModel
from gaptop.lab.core.requests import Request, Wish
from gaptop.lab.core.scenario import Scenario


class FrontEnd:
    """One tokeniser thread, as vLLM has by default. A cycle is made ready ``lead`` seconds before its time 0."""

    def __init__(self, scenario: Scenario, seed: int, host: HostModel, faults: Faults) -> None:
        self._scenario = scenario
        self._seed = seed
        self._host = host
        self._faults = faults
        self._sources: list[tuple[Load, Random, float]] = []
        self._wishes: list[tuple[float, int, int, Wish]] = []
        self._ready: list[tuple[float, Request]] = []
        self._free = 0.0
        self._count = 0
        self._cycles = 0
        self._begin_cycle()

    def next_event(self) -> float:
        """The earliest time at which something happens here: a wish, or a tokenised request."""
        ready = self._ready[0][0] if self._ready else float("inf")
        wish = self._wishes[0][0] if self._wishes else float("inf")
        return min(ready, wish, self._next_cycle())

    def busy(self) -> bool:
        """Whether a request is being tokenised or waits for it."""
        return bool(self._ready)

    def take(self, now: float) -> tuple[list[Request], list[HostSpan]]:
        """Requests that reach the scheduler by ``now``, and what the tokeniser did (spans that begin by ``now``)."""
        spans = []
        while True:
            begin = self._next_cycle()
            wish = self._wishes[0][0] if self._wishes else float("inf")
            if begin <= now and begin <= wish:
                self._begin_cycle()
            elif wish <= now:
                spans.append(self._tokenize(*heapq.heappop(self._wishes)[1:]))
            else:
                break
        arrived = []
        while self._ready and self._ready[0][0] <= now:
            arrived.append(self._ready.pop(0)[1])
        return arrived, spans

    def answered(self, request: Request, time: float) -> None:
        """The client of ``request`` has its last token: it may ask again."""
        load, rng, base = self._sources[request.source]
        wish = load.then(rng, base, time)
        if wish is not None:
            self._push(request.source, wish)

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

    def _tokenize(self, number: int, source: int, wish: Wish) -> HostSpan:
        start = max(wish.time, self._free)
        cost = self._host.cost("tokenize", wish.prompt) + self._faults.strike("tokenize", start)
        self._free = start + cost
        self._ready.append((self._free, Request(number, wish, source, wish.time, self._free)))
        return HostSpan(start, self._free, "tokenizer", "tokenize", False)
