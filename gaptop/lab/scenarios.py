"""The lab's scenarios by name. ``tour`` is what ``gaptop demo`` shows; the others show one cause each."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Arrivals, Burst, Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fault_scenarios import FAULT_SCENARIOS
from gaptop.valleys.model import Cause

PROMPT, OUTPUT = (60, 100), (40, 70)
"""Chats: short questions, short answers (tokens)."""

CHATS = Clients(count=20, start=0.0, until=60.0, prompt=PROMPT, output=OUTPUT)

LONG_DOCUMENT = Burst(at=3.0, count=1, prompt=(6700, 6700), output=(24, 24))
"""6700 tokens at the lab's speed are 1.2 s of device time, in four chunks of the token budget."""

AGENTS = Burst(at=8.4, count=2, prompt=(5900, 5900), output=(110, 110), cached=2800, priority=-1)
"""Two urgent requests with long histories: together they take 96 % of the KV cache, and the chats must give way."""

URGENT = EngineConfig(policy="priority")

TOUR = Scenario(
    name="tour",
    says="every situation once in 20 s: long prefill, host stall, full KV cache, silence, nobody admitted",
    causes=("prefill_interference", "host_starvation", "cache_pressure", "no_demand", "admission_stall"),
    period=20.0,
    lead=4.5,
    loads=(replace(CHATS, start=-4.5, until=13.6), LONG_DOCUMENT, AGENTS),
    faults=(Fault("schedule", 5.8, 1.05), Fault("hold", 17.5, 2.1)),
    engine=URGENT,
)


FOREVER = 1e9

STEADY = replace(CHATS, until=FOREVER, once=True)
"""The same chats without a break, however often the rest repeats."""


def _fault(name: str, says: str, cause: Cause, *faults: Fault) -> Scenario:
    return Scenario(name, says, (cause,), 10.0, (STEADY,), faults)


ROOMY = EngineConfig(max_model_len=32_768, num_blocks=4096)
"""Room for long documents: what a quantised model leaves on a large card."""

BATCHES: Final = ((4, 750), (20, 60), (28, 40), (9, 310), (24, 110), (14, 140), (17, 100), (6, 150))
"""Requests that come at once, and tokens of each prompt: the largest batches are not those that take most KV cache."""


def _batches() -> Scenario:
    """A batch each 10 s, and 1.2 s later host work that takes as long as it has requests."""
    return Scenario(
        "batch_work",
        "work on the host for each running request: the larger the batch, the longer the gap",
        ("host_starvation",),
        10.0 * len(BATCHES),
        (
            replace(STEADY, count=3),
            *(
                Burst(at=2.0 + 10.0 * index, count=count, prompt=(prompt, prompt), output=(150, 160))
                for index, (count, prompt) in enumerate(BATCHES)
            ),
        ),
        tuple(
            Fault("prepare_batch", 3.2 + 10.0 * index, 0.2 + 0.045 * count) for index, (count, _) in enumerate(BATCHES)
        ),
    )


_ALL = (
    TOUR,
    Scenario("steady", "twenty chats without a break and nothing wrong", (), 60.0, (STEADY,)),
    Scenario(
        "random",
        "chats that arrive at random (Poisson), sometimes more than fit and sometimes none",
        ("no_demand",),
        30.0,
        (Arrivals(6.0, 0.0, 12.0, PROMPT, OUTPUT), Arrivals(1.0, 12.0, 30.0, PROMPT, OUTPUT)),
    ),
    Scenario(
        "no_demand", "bursts of chats with silence between them", ("no_demand",), 7.0, (replace(CHATS, until=4.5),)
    ),
    Scenario(
        "prefill_interference",
        "a long document blocks the chats' decoding",
        ("prefill_interference",),
        10.0,
        (STEADY, replace(LONG_DOCUMENT, at=5.0)),
    ),
    Scenario(
        "documents",
        "documents of very different lengths among chats: the longer a prompt, the longer the gap",
        ("prefill_interference",),
        60.0,
        (replace(STEADY, count=12), Arrivals(0.1, 5.0, 60.0, (1500, 24_000), (8, 24))),
        engine=ROOMY,
    ),
    _batches(),
    Scenario(
        "cache_pressure",
        "two long urgent requests push the chats out of the KV cache",
        ("cache_pressure",),
        12.0,
        (STEADY, replace(AGENTS, at=5.0)),
        engine=URGENT,
    ),
    Scenario(
        "admission_stall",
        "requests wait, memory is free, and nobody is admitted for a while",
        ("admission_stall",),
        10.0,
        (STEADY,),
        (Fault("hold", 5.0, 2.6),),
    ),
    Scenario(
        "static_batch",
        "a batch may only change when it is empty: the longest answer holds up everybody",
        ("admission_stall",),
        12.0,
        (replace(STEADY, output=(10, 120)),),
        engine=EngineConfig(membership="static"),
    ),
    Scenario(
        "whole_prompts",
        "no chunked prefill: each long prompt stops all decoding",
        ("prefill_interference",),
        10.0,
        (STEADY, replace(LONG_DOCUMENT, at=5.0)),
        engine=EngineConfig(chunked=False, max_num_batched_tokens=8192),
    ),
    _fault("host_schedule", "the scheduler takes 1.2 s on one core", "host_starvation", Fault("schedule", 4.0, 1.2)),
    _fault("host_prepare", "a batch takes 1.2 s to prepare", "host_starvation", Fault("prepare_batch", 4.0, 1.2)),
    _fault(
        "host_detokenize",
        "the front end detokenises for 2.8 s: clients get no answers and ask nothing new",
        "host_starvation",
        Fault("detokenize", 4.0, 1.4),
        Fault("detokenize", 4.1, 1.4),
    ),
    Scenario(
        "host_tokenize",
        "the front end tokenises one prompt for 1.5 s: new requests do not reach the scheduler",
        ("host_starvation",),
        10.0,
        (replace(STEADY, output=(10, 30)),),
        (Fault("tokenize", 4.0, 1.5),),
    ),
    _fault(
        "synchronisation", "a blocking wait of 1.2 s, device idle", "synchronisation", Fault("device_sync", 4.0, 1.2)
    ),
    _fault("compiling", "a kernel is compiled while requests run", "compiling", Fault("compile", 4.0, 1.4)),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (*_ALL, *FAULT_SCENARIOS)}
