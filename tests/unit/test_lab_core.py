"""The lab's simulation: deterministic, sorted, nothing lost, and its truth covers exactly the device's idle time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.lab.core.events import DeviceSpan, Event, HostSpan, Idle, StepDone
from gaptop.lab.core.loads import Burst, Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.requests import Request, Wish
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.scheduler import Scheduler
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.scenarios import SCENARIOS

SECONDS = 20.0


def run(name: str, seconds: float = SECONDS, seed: int = 1) -> list[Event]:
    return list(Simulation(SCENARIOS[name], seed).events(seconds))


def idle_seconds(events: list[Event]) -> dict[str, float]:
    """Idle seconds by verdict."""
    total: dict[str, float] = {}
    for event in events:
        if isinstance(event, Idle):
            total[event.cause] = total.get(event.cause, 0.0) + event.end - event.start
    return total


def test_same_seed_same_events_and_another_seed_others() -> None:
    assert run("tour", 10.0, seed=3) == run("tour", 10.0, seed=3)
    assert run("tour", 10.0, seed=3) != run("tour", 10.0, seed=4)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_events_are_sorted_and_truth_tiles_the_idle_time(name: str) -> None:
    events = run(name, 13.0)
    assert all(before.start <= after.start for before, after in pairwise(events))
    for device in devices(events):
        pieces = sorted((event.start, event.end) for event in device if not is_phantom(event))
        assert pieces[0][0] == 0.0
        assert all(before[1] == after[0] for before, after in pairwise(pieces))
        assert pieces[-1][1] >= 13.0


def devices(events: list[Event]) -> list[list[DeviceSpan | Idle]]:
    """What each device did, and its truth."""
    mine: dict[int, list[DeviceSpan | Idle]] = {}
    for event in events:
        if isinstance(event, DeviceSpan | Idle):
            mine.setdefault(event.device, []).append(event)
    return list(mine.values())


def is_phantom(event: Event) -> bool:
    """Busy as the driver has it: in truth the device is idle, so this lies over its Idle."""
    return isinstance(event, DeviceSpan) and event.kind == "phantom"


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_engine_thread_has_no_gaps_and_no_overlaps(name: str) -> None:
    spans = [event for event in run(name, 13.0) if isinstance(event, HostSpan) and event.thread == "engine"]
    assert all(before.end == pytest.approx(after.start, abs=1e-9) for before, after in pairwise(spans))


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("no_demand", 3.0),
        ("admission_stall", 1.5),
        ("host_schedule", 2.0),
        ("host_prepare", 2.0),
        ("host_detokenize", 2.5),
        ("host_tokenize", 1.0),
        ("synchronisation", 2.0),
        ("compiling", 2.0),
    ],
)
def test_each_fault_is_what_the_idle_device_waits_for(name: str, at_least: float) -> None:
    idle = idle_seconds(run(name))
    [cause] = SCENARIOS[name].causes
    assert idle.pop(cause) > at_least
    assert sum(idle.values()) < 0.2


def test_steady_never_idles_and_keeps_its_pace() -> None:
    events = run("steady", 10.0)
    assert sum(idle_seconds(events).values()) < 0.05
    steps = [event for event in events if isinstance(event, StepDone) and event.end > 1.0]
    rate = sum(len(step.outputs) for step in steps) / 9.0
    assert 800 < rate < 1100


def rates(events: list[Event], start: float, end: float) -> float:
    """Tokens a second that reached the front end over [start, end)."""
    tokens = sum(len(event.outputs) for event in events if isinstance(event, StepDone) and start <= event.end < end)
    return tokens / (end - start)


def test_the_tour_has_its_five_situations_each_alone() -> None:
    events = run("tour", 20.0)
    steps = [event for event in events if isinstance(event, StepDone)]
    normal = rates(events, 1.0, 3.0)
    # Between them at least 1.4 s at full speed.
    for start, end in ((0.6, 3.0), (4.4, 5.8), (6.95, 8.4), (12.1, 13.5), (16.0, 17.4)):
        assert rates(events, start, end) > 0.85 * normal
    assert rates(events, 3.15, 4.15) < 0.2 * normal
    assert rates(events, 5.9, 6.8) == 0
    full = [step for step in steps if step.used_blocks >= 0.96 * step.blocks]
    assert full[-1].end - full[0].end > 2.0
    assert rates(events, full[0].end, full[-1].end) < 0.3 * normal
    before, inside = (next(step for step in steps if step.end > t) for t in (8.3, 10.0))
    assert inside.running < before.running / 2
    assert inside.waiting > 10
    idle = [event for event in events if isinstance(event, Idle) and event.end - event.start > 0.04]
    assert [
        cause
        for index, cause in enumerate(event.cause for event in idle)
        if index == 0 or idle[index - 1].cause != cause
    ] == [
        "host_starvation",
        "no_demand",
        "admission_stall",
    ]
    long = {cause: seconds for cause, seconds in idle_seconds(events).items() if seconds > 0.5}
    assert set(long) == {"host_starvation", "no_demand", "admission_stall"}


def test_preempted_requests_are_told_of_only_when_they_run_again() -> None:
    events = run("cache_pressure", 9.0)
    steps = [event for event in events if isinstance(event, StepDone)]
    thrown_out = next(step.end for step in steps if step.waiting > 10)
    told = [(step.end, sum(output.preemptions for output in step.outputs)) for step in steps]
    assert sum(count for end, count in told if end <= thrown_out) == 0
    assert sum(count for _, count in told) >= 15


def test_the_whole_prompt_is_booked_with_its_last_chunk() -> None:
    events = run("prefill_interference", 8.0)
    spans = [event for event in events if isinstance(event, DeviceSpan) and event.prefill_tokens > 1900]
    booked = [
        (event.end, output.first.prompt_tokens)
        for event in events
        if isinstance(event, StepDone)
        for output in event.outputs
        if output.first is not None and output.first.prompt_tokens > 2000
    ]
    assert len(spans) >= 3
    assert [tokens for _, tokens in booked] == [6700]
    assert booked[0][0] > spans[-1].end


def test_unchunked_prompts_get_steps_of_their_own() -> None:
    spans = [event for event in run("whole_prompts", 9.0) if isinstance(event, DeviceSpan)]
    assert not [span for span in spans if span.prefill_tokens and span.decode_tokens]
    assert max(span.prefill_tokens for span in spans) >= 6700


def test_a_request_that_can_never_run_is_refused() -> None:
    load = Burst(at=0.1, count=1, prompt=(900, 900), output=(10, 10))
    scenario = Scenario("x", "", (), 60.0, (load,), engine=EngineConfig(num_blocks=32))
    with pytest.raises(ValueError, match="can never run"):
        list(Simulation(scenario).events(1.0))


def test_a_request_preempted_with_its_last_token_under_way_is_not_admitted_again() -> None:
    scheduler = Scheduler(EngineConfig(num_blocks=5))
    old = Request(1, Wish(0.0, prompt=30, output=30), source=0, arrived=0.0)
    last = Request(2, Wish(0.0, prompt=32, output=1), source=0, arrived=0.0)
    scheduler.add(old)
    scheduler.add(last)
    scheduler.schedule(0.0, held=False)
    while last in scheduler.running:
        assert scheduler.schedule(0.0, held=False)
    assert last.preemptions == 1
    scheduler.finish(old)
    assert scheduler.schedule(0.0, held=False) == []
    scheduler.finish(last)
    assert (scheduler.waiting, scheduler.running, scheduler.pool.used) == ([], [], 0)


CONFIGS = st.builds(
    EngineConfig,
    max_num_seqs=st.integers(1, 12),
    max_num_batched_tokens=st.integers(16, 600),
    num_blocks=st.integers(30, 90),
    policy=st.sampled_from(["fcfs", "priority"]),
    membership=st.sampled_from(["continuous", "static"]),
    steps_in_flight=st.integers(1, 4),
)
BURSTS = st.builds(
    Burst,
    at=st.floats(0, 1),
    count=st.integers(1, 6),
    prompt=st.just((1, 300)),
    output=st.just((1, 120)),
    cached=st.sampled_from([0, 0, 40]),
    priority=st.integers(-1, 1),
)


@settings(max_examples=40, deadline=None)
@given(config=CONFIGS, bursts=st.lists(BURSTS, min_size=1, max_size=3), seed=st.integers(0, 99))
def test_nothing_is_lost_whatever_the_settings(config: EngineConfig, bursts: list[Burst], seed: int) -> None:
    scenario = Scenario("x", "", (), 1e6, tuple(bursts), engine=config)
    simulation = Simulation(scenario, seed)
    scheduler = simulation.scheduler
    wanted = sum(burst.count for burst in bursts)
    given_out: dict[int, int] = {}
    finished: dict[int, int] = {}
    computed = recomputed = needed = 0
    for event in simulation.events(400.0):
        assert 0 <= scheduler.pool.used <= scheduler.pool.capacity
        assert scheduler.pool.used == sum(request.blocks for request in scheduler.running)
        assert all(request.blocks == 0 for request in scheduler.waiting)
        assert len(scheduler.running) <= config.max_num_seqs
        if isinstance(event, DeviceSpan):
            assert event.prefill_tokens + event.decode_tokens <= config.max_num_batched_tokens
            computed += event.prefill_tokens + event.decode_tokens
            recomputed += event.recomputed_tokens
        elif isinstance(event, StepDone):
            for output in event.outputs:
                given_out[output.request] = given_out.get(output.request, 0) + 1
                if output.finished is not None:
                    done = output.finished
                    finished[output.request] = done.output_tokens
                    needed += done.prompt_tokens - done.cached_tokens + done.output_tokens - 1
        if len(finished) == wanted:
            break
    assert len(finished) == wanted
    assert given_out == finished
    # What was taken away and is computed again, and nothing else: chunks of one token count as decoding.
    assert computed >= needed + recomputed
    if recomputed == 0:
        assert computed == needed


def test_closed_loop_clients_stop_together() -> None:
    clients = Clients(count=8, start=0.0, until=5.0, prompt=(50, 90), output=(40, 70))
    events = list(Simulation(Scenario("x", "", (), 10.0, (clients,))).events(9.0))
    last = max(event.end for event in events if isinstance(event, DeviceSpan))
    assert 4.0 < last < 5.2
