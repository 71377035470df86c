"""What goes wrong in a case: for each cause the ways in which it comes about, over wide ranges of length and strength.

Each takes the server that it will strike, changes those settings that it cannot do without, and says what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Final

from gaptop.lab.core.faults import Fault, Place
from gaptop.lab.core.loads import Burst, Clients, Load
from gaptop.lab.score.server import BLOCK, Pause, Server
from gaptop.valleys.model import Cause

LONG_HISTORY: Final = 12_000
"""Tokens."""

TOO_SHORT: Final = 0.12
"""Share of the conditions that are too short to be seen: nobody may be blamed for what cannot be told."""


@dataclass(frozen=True, slots=True)
class Added:
    """What a condition adds at ``at``, and about how many seconds it lasts with what it leaves behind."""

    says: str
    seconds: float
    faults: tuple[Fault, ...] = ()
    loads: tuple[Load, ...] = ()
    pauses: tuple[Pause, ...] = field(default=())


Condition = Callable[[Random, Server, float], Added]


def length(rng: Random, low: float, high: float) -> float:
    """Seconds, more often short than long; sometimes too short to be seen."""
    if rng.random() < TOO_SHORT:
        return round(rng.uniform(0.03, 0.12), 3)
    return round(rng.triangular(low, high, low), 3)


def _strike(place: Place, low: float = 0.35, high: float = 4.0, strength: float = 0.0) -> Condition:
    def add(rng: Random, server: Server, at: float) -> Added:
        seconds = length(rng, low, high)
        return Added(f"{place} {seconds:.2f} s", seconds, (Fault(place, at, seconds, strength),))

    return add


def _silence(rng: Random, server: Server, at: float) -> Added:
    """Closed-loop clients are made to stop together; what has come at random runs out first."""
    seconds = length(rng, 0.6, 9.0)
    quiet = seconds + (server.drain if server.open_loop else 0.0)
    return Added(f"silence {seconds:.2f} s", quiet, pauses=(Pause(at, at + quiet),))


def _few_clients(rng: Random, server: Server, at: float) -> Added:
    """A client that thinks: the device idles between its requests."""
    seconds, think = rng.uniform(4.0, 10.0), rng.uniform(0.3, 1.2)
    one = Clients(1, at, at + seconds, server.prompt, (8, 24), think=think, pace=0.9 / server.step, once=True)
    return Added(f"one client {seconds:.1f} s", seconds, loads=(one,), pauses=(Pause(at, at + seconds),))


def _hold(rng: Random, server: Server, at: float) -> Added:
    seconds = server.drain + length(rng, 0.5, 6.0)
    return Added(f"hold {seconds:.2f} s", seconds, (Fault("hold", at, seconds),))


def _static(rng: Random, server: Server, at: float) -> Added:
    """The whole run: a batch may only change when it is empty, and answers differ in length."""
    server.settings["membership"] = "static"
    server.output = (server.output[0], server.output[0] * rng.randint(5, 10))
    return Added("static membership", 8.0)


def _long_prompt(rng: Random, server: Server, at: float) -> Added:
    seconds = length(rng, 0.7, 5.0)
    count = rng.choice((1, 1, 2, 3))
    tokens = max(256, round(seconds * server.prefill_rate / count))
    return _document(server, at, count, min(tokens, 120_000), seconds)


def _whole_prompt(rng: Random, server: Server, at: float) -> Added:
    server.settings["chunked"] = False
    return _long_prompt(rng, server, at)


def _document(server: Server, at: float, count: int, tokens: int, seconds: float) -> Added:
    server.needs(tokens + 32, round(1.4 * count * (tokens // BLOCK + 4)))
    burst = Burst(at, count, (tokens, tokens), (8, 24))
    return Added(f"{count} prompts of {tokens} tokens", seconds, loads=(burst,))


def _agents(rng: Random, server: Server, at: float) -> Added:
    """Urgent requests with long, mostly cached histories take nearly the whole KV cache."""
    server.settings["policy"] = "priority"
    room = server.blocks * BLOCK * rng.uniform(0.9, 0.96)
    # Not longer each: decoding behind a longer history is slow by itself.
    count = max(rng.choice((1, 2, 3)), ceil(room / LONG_HISTORY))
    tokens = round(room / count)
    output = max(16, round(rng.uniform(0.6, 3.0) / server.step))
    output = min(output, tokens // 4)
    prompt = tokens - output
    server.longest = max(server.longest, tokens + 8)
    cached = round(prompt * rng.uniform(0.7, 0.97))
    burst = Burst(at, count, (prompt, prompt), (output, output), cached=cached, priority=-1)
    return Added(f"{count} urgent requests of {tokens} tokens", output * server.step + 2.0, loads=(burst,))


def _front(place: Place) -> Condition:
    """The front end holds what the engine needs to go on, so that it lasts until the batch has run dry."""

    def add(rng: Random, server: Server, at: float) -> Added:
        server.settings["tokenizer_workers"] = 1
        seconds = round(server.drain + length(rng, 0.5, 4.0), 3)
        return Added(f"{place} {seconds:.2f} s", seconds, (Fault(place, at, seconds),))

    return add


def _lasting(place: Place, low: float, high: float, weakest: float, strongest: float) -> Condition:
    def add(rng: Random, server: Server, at: float) -> Added:
        seconds = round(rng.uniform(low, high), 3)
        strength = round(rng.uniform(weakest, strongest), 4)
        fault = Fault(place, at, seconds, strength, rank=rng.randrange(server.ranks))
        return Added(f"{place} {strength:g} for {seconds:.1f} s", seconds, (fault,))

    return add


def _limit(place: Place) -> Condition:
    """On every device: tensor-parallel ranks wait for the slowest anyway, and a power cap is one of a whole host."""

    def add(rng: Random, server: Server, at: float) -> Added:
        seconds, clock = round(rng.uniform(3.0, 10.0), 3), round(rng.uniform(0.12, 0.32), 3)
        faults = tuple(Fault(place, at, seconds, clock, rank=rank) for rank in range(server.ranks))
        return Added(f"{place} clock {clock:.0%} for {seconds:.1f} s", seconds, faults)

    return add


def _gil(rng: Random, server: Server, at: float) -> Added:
    """One process for everything, as vLLM runs where it is told to; with several ranks it cannot, and the output thread
    is only slow."""
    server.settings["single_process"] = server.ranks == 1
    return _lasting("gil", 3.0, 9.0, 2.0 * server.step, 6.0 * server.step)(rng, server, at)


def _copy(rng: Random, server: Server, at: float) -> Added:
    return _lasting("copy", 2.0, 9.0, 1.5 * server.step, 6.0 * server.step)(rng, server, at)


def _ranks(place: Place) -> Condition:
    def add(rng: Random, server: Server, at: float) -> Added:
        server.ranks = max(2, server.ranks)
        seconds = length(rng, 0.8, 5.0)
        spins = place == "collective" or rng.random() < 0.6
        fault = Fault(place, at, seconds, rank=rng.randrange(server.ranks), spins=spins)
        return Added(f"{place} {seconds:.2f} s", seconds, (fault,))

    return add


def _remote(rng: Random, server: Server, at: float) -> Added:
    seconds = server.drain + length(rng, 0.5, 5.0)
    return Added(f"remote KV {seconds:.2f} s", seconds, (Fault("remote_kv", at, seconds),))


def _phantom(rng: Random, server: Server, at: float) -> Added:
    """Everything is aborted, the gauges stay as they were, and the driver goes on saying busy."""
    seconds = round(rng.uniform(3.0, 8.0), 3)
    faults = (Fault("abort", at, seconds), Fault("phantom", at, seconds))
    quiet = Pause(at, at + seconds, abrupt=True)
    return Added(f"abort and phantom busy {seconds:.1f} s", seconds, faults, pauses=(quiet,))


KINDS: Final[Mapping[Cause, Sequence[Condition]]] = {
    "no_demand": (_silence, _silence, _few_clients),
    "admission_stall": (_hold, _hold, _hold, _static),
    "prefill_interference": (_long_prompt, _long_prompt, _whole_prompt),
    "cache_pressure": (_agents,),
    "host_starvation": (
        _strike("schedule"),
        _strike("prepare_batch"),
        _strike("sample"),
        _strike("grammar"),
        _strike("gc"),
        _strike("log"),
        _front("detokenize"),
        _front("tokenize"),
        _front("stop"),
        _gil,
        _lasting("throttle", 2.0, 8.0, 0.7, 0.95),
        _lasting("oversubscription", 2.0, 8.0, 15.0, 50.0),
    ),
    "synchronisation": (_strike("device_sync"), _copy, _ranks("straggler"), _ranks("collective")),
    "external_wait": (_remote, _strike("adapter", 0.6, 5.0), _strike("paging", 0.6, 5.0)),
    "compiling": (_strike("compile", 0.5, 6.0), _strike("graph_capture", 0.5, 5.0)),
    "device_limit": (_limit("power"), _limit("thermal"), _lasting("cotenant", 3.0, 9.0, 0.6, 0.85)),
    "stalled_busy": (_strike("wedge", 2.5, 10.0),),
    "artefact": (_phantom,),
}
"""By cause. A way that is listed twice is drawn twice as often."""
