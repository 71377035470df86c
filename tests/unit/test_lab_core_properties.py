"""Whatever the settings, loads and faults: the simulation is deterministic, loses nothing, and its truth is whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.lab.core.causes import CAUSES
from gaptop.lab.core.events import DeviceSpan, Event, HostSpan, Idle, Open, Stall, StepDone
from gaptop.lab.core.faults import Fault, Place
from gaptop.lab.core.loads import Arrivals, Burst, Bursts, Clients, Load
from gaptop.lab.core.model import HARDWARE, EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation

PERIOD = 6.0
SECONDS = 9.0

CONFIGS = st.builds(
    EngineConfig,
    max_num_seqs=st.integers(1, 12),
    max_num_batched_tokens=st.integers(450, 600),
    num_blocks=st.integers(60, 120),
    chunked=st.booleans(),
    policy=st.sampled_from(["fcfs", "priority"]),
    membership=st.sampled_from(["continuous", "static"]),
    steps_in_flight=st.integers(1, 3),
    preemption=st.sampled_from(["recompute", "swap"]),
    tensor_parallel_size=st.integers(1, 3),
    tokenizer_workers=st.integers(1, 3),
    single_process=st.booleans(),
    busy_poll=st.booleans(),
    disaggregated=st.just(False),
)
APART = st.builds(
    EngineConfig,
    num_blocks=st.integers(60, 120),
    steps_in_flight=st.integers(1, 2),
    disaggregated=st.just(True),
    kv_transfer_bandwidth=st.sampled_from([1e9, 25e9]),
)
FAULTS = st.builds(
    Fault,
    place=st.sampled_from(get_args(get_args(Place)[0]) + get_args(get_args(Place)[1])),
    at=st.floats(0, 5),
    seconds=st.floats(0.01, 1.5),
    every=st.sampled_from([0.0, 0.0, 1.7]),
    rank=st.integers(0, 2),
    spins=st.booleans(),
)
LENGTHS = {"prompt": st.just((1, 300)), "output": st.just((1, 120))}
SHARED = {"prefix": st.integers(0, 200), "groups": st.integers(0, 3)}
LOADS = st.one_of(
    st.builds(Clients, count=st.integers(1, 8), start=st.just(0.0), until=st.just(4.0), **LENGTHS),
    st.builds(
        Burst, at=st.floats(0, 4), count=st.integers(1, 5), images=st.integers(0, 2), cached=st.just(40), **LENGTHS
    ),
    st.builds(
        Bursts,
        size=st.integers(1, 4),
        every=st.floats(0.5, 2),
        jitter=st.floats(0, 0.3),
        start=st.just(0.0),
        until=st.just(4.0),
        **LENGTHS,
        **SHARED,
    ),
    st.builds(
        Arrivals,
        rate=st.floats(0.5, 8),
        start=st.just(0.0),
        until=st.just(4.0),
        poisson=st.booleans(),
        **LENGTHS,
        **SHARED,
    ),
)


def scenario_of(config: EngineConfig, loads: list[Load], faults: list[Fault], period: float = PERIOD) -> Scenario:
    return Scenario("x", "", (), period, tuple(loads), tuple(faults), engine=config, device=HARDWARE["4090"])


SCENARIOS = st.builds(
    scenario_of,
    config=st.one_of(CONFIGS, CONFIGS, APART),
    loads=st.lists(LOADS, min_size=1, max_size=3),
    faults=st.lists(FAULTS, max_size=4),
)


def is_phantom(event: Event) -> bool:
    return isinstance(event, DeviceSpan) and event.kind == "phantom"


@settings(max_examples=60, deadline=None)
@given(scenario=SCENARIOS, seed=st.integers(0, 99))
def test_the_truth_is_whole(scenario: Scenario, seed: int) -> None:
    events = list(Simulation(scenario, seed).events(SECONDS))
    assert events == list(Simulation(scenario, seed).events(SECONDS))
    assert all(before.start <= after.start for before, after in pairwise(events))
    ranks = 2 if scenario.engine.disaggregated else scenario.engine.tensor_parallel_size
    for device in range(ranks):
        mine = [event for event in events if isinstance(event, DeviceSpan | Idle) and event.device == device]
        spans = sorted((event.start, event.end) for event in mine if isinstance(event, DeviceSpan))
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        pieces = sorted((event.start, event.end) for event in mine if not is_phantom(event))
        assert pieces[0][0] == 0.0
        assert all(before[1] == after[0] for before, after in pairwise(pieces))
        assert pieces[-1][1] >= SECONDS
    for event in events:
        if isinstance(event, Idle | Stall):
            assert event.end > event.start
            assert event.cause == CAUSES[event.waited_for]
    threads: dict[str, list[HostSpan]] = {}
    for event in events:
        if isinstance(event, HostSpan):
            threads.setdefault(event.thread, []).append(event)
    for spans_of in threads.values():
        assert all(before.end <= after.start + 1e-9 for before, after in pairwise(spans_of))
    stalls = [event for event in events if isinstance(event, Stall)]
    assert all(before.end <= after.start for before, after in pairwise(stalls))


@settings(max_examples=40, deadline=None)
@given(scenario=SCENARIOS, seed=st.integers(0, 99))
def test_blocks_never_exceed_capacity_and_every_request_gets_its_tokens(scenario: Scenario, seed: int) -> None:
    once = scenario_of(
        scenario.engine, list(scenario.loads), [replace(fault, every=0.0) for fault in scenario.faults], period=1e6
    )
    simulation = Simulation(once, seed)
    given_out: dict[int, int] = {}
    finished: dict[int, int] = {}
    opened: list[Open] = []
    for event in simulation.events(120.0):
        for scheduler in simulation.schedulers:
            pool = scheduler.pool
            held = scheduler.running + scheduler.leaving
            shared = pool.used - sum(request.blocks for request in held)
            assert (
                0
                <= shared
                <= sum(request.shared for request in held) + pool.capacity * any(request.shares for request in held)
            )
            assert 0 <= pool.cached <= pool.capacity - pool.used
            assert len(scheduler.running) <= scheduler.config.max_num_seqs
            assert all(request.blocks == request.shared == 0 for request in scheduler.waiting)
        if isinstance(event, Open):
            opened.append(event)
        elif isinstance(event, StepDone):
            assert event.used_blocks <= event.blocks
            for output in event.outputs:
                given_out[output.request] = given_out.get(output.request, 0) + 1
                if output.finished is not None:
                    finished[output.request] = output.finished.output_tokens
    for scheduler in simulation.schedulers:
        assert (scheduler.running, scheduler.waiting, scheduler.leaving, scheduler.pool.used) == ([], [], [], 0)
    assert {request: given_out[request] for request in finished} == finished
    assert sum(event.change for event in opened) == 0
    asked = sum(event.change == 1 for event in opened)
    places = [fault.place for fault in once.faults]
    if "abort" not in places:
        left = places.count("hang_up")
        assert len(given_out.keys() - finished.keys()) <= left
        assert asked - left <= len(finished) <= asked
