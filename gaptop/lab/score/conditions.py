"""What goes wrong in a case: for each cause the ways in which it comes about, over wide ranges of length and strength.

Each takes the server that it will strike, changes those settings that it cannot do without, and says what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from typing import Final

from gaptop.lab.core.faults import Fault, Place
from gaptop.lab.core.loads import Burst, Clients, Load
from gaptop.lab.core.model import HostModel
from gaptop.lab.score.server import BLOCK, Pause, Server
from gaptop.valleys.model import Cause

LONG_HISTORY: Final = 12_000
"""Tokens."""

MOST_AT_ONCE: Final = 160
"""Requests: under vLLM's default limit of 256."""

CLOCK: Final = (0.15, 0.9)
"""Share of the highest clock under a limit: from a card at its slowdown temperature to one a little over its cap. The
memory's bandwidth holds down to 0.7, so that decoding hardly notices the upper half."""

IMAGE: Final = HostModel().multimodal[1]
"""Seconds that one takes in the front end."""

LATE: Final = ("prepare_batch", "gc", "log", "sample", "run_queue")
"""What a rank does that comes late."""

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


def _capped(rng: Random, server: Server, at: float) -> Added:
    """Deferred requests that never come back take up the places of running ones, one after the other, until nobody can
    be admitted any more (vLLM #53130)."""
    server.settings["max_num_seqs"] = max(2, round(server.count * rng.uniform(0.6, 0.8)))
    seconds = server.drain + length(rng, 0.5, 6.0)
    return Added(f"capped {seconds:.2f} s", seconds, (Fault("hold", at, seconds, 1.0),))


def _wedge(rng: Random, server: Server, at: float) -> Added:
    """A kernel that waits for ever is seen at a fifth of the power, one that loops at all of it."""
    seconds = length(rng, 2.5, 10.0)
    power = rng.choice((0.0, 0.0, round(rng.uniform(0.2, 1.0), 2), 1.0))
    return Added(f"wedge {seconds:.2f} s at {power:.0%} of the power", seconds, (Fault("wedge", at, seconds, power),))


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


def _long_outputs(rng: Random, server: Server, at: float) -> Added:
    """Many short prompts that are all admitted, and answers so long that they outgrow the KV cache: requests are
    preempted, come back and are preempted again (vLLM PR#44594: 1065 preemptions in one benchmark)."""
    output = max(32, round(rng.uniform(2.0, 7.0) / server.step))
    prompt = rng.randint(16, 64)
    return _crowd(server, at, prompt, output, rng.uniform(1.2, 1.8), output * server.step * 2.0)


def _many_prompts(rng: Random, server: Server, at: float) -> Added:
    """More mid-size prompts than there are blocks for: they are admitted as others end."""
    prompt = rng.randint(600, 2500)
    output = max(16, round(rng.uniform(1.0, 4.0) / server.step))
    return _crowd(server, at, prompt, output, rng.uniform(1.1, 1.6), output * server.step * 2.0)


def _crowd(server: Server, at: float, prompt: int, output: int, share: float, seconds: float) -> Added:
    """Requests that want ``share`` of the KV cache together. Not more than a server takes at once: they are longer
    where the cache is large."""
    room = server.blocks * BLOCK
    count = min(MOST_AT_ONCE, ceil(share * room / (prompt + output)))
    prompt = max(prompt, ceil(share * room / count) - output)
    server.longest = max(server.longest, prompt + output + 8)
    server.settings["max_num_seqs"] = max(server.settings["max_num_seqs"], server.count + count)
    burst = Burst(at, count, (prompt, prompt), (output, output))
    return Added(f"{count} requests of {prompt} + {output} tokens", seconds, loads=(burst,))


def _large_head(rng: Random, server: Server, at: float) -> Added:
    """One long, mostly cached history needs more blocks than are free, and first come is first served: nobody behind it
    is admitted until the batch has run down."""
    tokens = round(server.blocks * BLOCK * rng.uniform(0.7, 0.95))
    server.longest = max(server.longest, tokens + 8)
    output = min(tokens // 4, rng.randint(8, 24))
    prompt = tokens - output
    burst = Burst(at, 1, (prompt, prompt), (output, output), cached=round(prompt * rng.uniform(0.9, 0.98)))
    return Added(f"one request of {tokens} tokens", server.drain + 2.0, loads=(burst,))


def _images(rng: Random, server: Server, at: float) -> Added:
    """One request with many large images on the front end's only worker: nobody's prompt is tokenised meanwhile (a real
    server stood at 6.7 requests a second so, with a device at rest)."""
    server.settings["tokenizer_workers"] = 1
    images = ceil((server.drain + length(rng, 0.5, 4.0)) / IMAGE)
    server.longest = max(server.longest, 1024)
    burst = Burst(at, 1, (200, 600), (8, 24), images=images)
    return Added(f"{images} images", images * IMAGE, loads=(burst,))


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
        seconds, clock = round(rng.uniform(3.0, 10.0), 3), round(rng.uniform(*CLOCK), 3)
        faults = tuple(Fault(place, at, seconds, clock, rank=rank) for rank in range(server.ranks))
        return Added(f"{place} clock {clock:.0%} for {seconds:.1f} s", seconds, faults)

    return add


def _gil(rng: Random, server: Server, at: float) -> Added:
    """One process for everything, as vLLM runs where it is told to; with several ranks it cannot, and the output thread
    is only slow."""
    server.settings["single_process"] = server.ranks == 1
    return _lasting("gil", 3.0, 9.0, 0.2 * server.step, 6.0 * server.step)(rng, server, at)


def _copy(rng: Random, server: Server, at: float) -> Added:
    return _lasting("copy", 2.0, 9.0, 0.1 * server.step, 6.0 * server.step)(rng, server, at)


def _ranks(place: Place) -> Condition:
    def add(rng: Random, server: Server, at: float) -> Added:
        server.ranks = max(2, server.ranks)
        seconds = length(rng, 0.8, 5.0)
        spins = place == "collective" or rng.random() < 0.6
        fault = Fault(place, at, seconds, rank=rng.randrange(server.ranks), spins=spins)
        if place == "collective":
            return Added(f"{place} {seconds:.2f} s", seconds, (fault,))
        late = 2 if server.ranks >= 4 and rng.random() < 0.3 else 1
        fault = replace(fault, phase=rng.choice(LATE), strength=late)
        return Added(f"{late} of {server.ranks} late ({fault.phase}) {seconds:.2f} s", seconds, (fault,))

    return add


def _remote(rng: Random, server: Server, at: float) -> Added:
    seconds = server.drain + length(rng, 0.5, 5.0)
    return Added(f"remote KV {seconds:.2f} s", seconds, (Fault("remote_kv", at, seconds),))


def _left(rng: Random, server: Server, at: float) -> Added:
    """Everybody hangs up at once and no message says so: the gauges stay as they were (vLLM #29928), and the device
    rests since nobody asks."""
    seconds = round(rng.uniform(1.0, 8.0), 3)
    quiet = Pause(at, at + seconds, abrupt=True)
    return Added(f"all hang up for {seconds:.1f} s", seconds, (Fault("abort", at, seconds),), pauses=(quiet,))


def _phantom(rng: Random, server: Server, at: float) -> Added:
    """Everything is aborted, the gauges stay as they were, and the driver goes on saying busy."""
    seconds = round(rng.uniform(3.0, 8.0), 3)
    faults = (Fault("abort", at, seconds), Fault("phantom", at, seconds))
    quiet = Pause(at, at + seconds, abrupt=True)
    return Added(f"abort and phantom busy {seconds:.1f} s", seconds, faults, pauses=(quiet,))


KINDS: Final[Mapping[Cause, Sequence[Condition]]] = {
    "no_demand": (_silence, _silence, _few_clients, _left),
    "admission_stall": (_hold, _hold, _hold, _capped, _static),
    "prefill_interference": (_long_prompt, _long_prompt, _whole_prompt),
    "cache_pressure": (_agents, _long_outputs, _many_prompts, _large_head),
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
        _images,
        _gil,
        _lasting("throttle", 2.0, 8.0, 0.3, 0.95),
        _lasting("oversubscription", 2.0, 8.0, 1.0, 50.0),
    ),
    "synchronisation": (_strike("device_sync"), _copy, _ranks("straggler"), _ranks("collective")),
    "external_wait": (_remote, _strike("adapter", 0.6, 5.0), _strike("paging", 0.6, 5.0)),
    "compiling": (_strike("compile", 0.5, 6.0), _strike("graph_capture", 0.5, 5.0)),
    "device_limit": (_limit("power"), _limit("thermal"), _lasting("cotenant", 3.0, 9.0, 0.2, 0.9)),
    "stalled_busy": (_wedge,),
    "artefact": (_phantom,),
}
"""By cause. A way that is listed twice is drawn twice as often."""
