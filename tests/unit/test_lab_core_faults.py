"""Each fault of the lab: what it does to threads, devices and messages, and what the truth says of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from gaptop.lab.core.causes import CAUSES
from gaptop.lab.core.events import Condition, DeviceSpan, Event, HostSpan, Idle, Limit, Stall, StepDone
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.scenarios import SCENARIOS

CHATS = Clients(count=16, start=0.0, until=1e9, prompt=(60, 100), output=(40, 70), once=True)
TWO = EngineConfig(tensor_parallel_size=2)


def play(*faults: Fault, engine: EngineConfig | None = None, clients: Clients = CHATS) -> list[Event]:
    """Eight seconds of chats with ``faults``."""
    scenario = Scenario("x", "", (), 60.0, (clients,), faults, engine=engine or EngineConfig())
    return list(Simulation(scenario, 1).events(8.0))


def seconds_of(events: list[Event], kind: type[Idle | Stall], start: float = 2.0) -> dict[str, float]:
    """Seconds by what was waited for, the start-up left out."""
    total: dict[str, float] = defaultdict(float)
    for event in events:
        if isinstance(event, kind) and event.start >= start:
            total[event.waited_for] += event.end - event.start
    return total


@pytest.mark.parametrize(
    ("fault", "waited_for", "idle", "stall", "engine"),
    [
        (Fault("gc", 4.0, 0.9), "gc", 0.87, 0.9, None),
        (Fault("log", 4.0, 0.9), "log", 0.87, 0.9, None),
        (Fault("grammar", 4.0, 0.9), "grammar", 0.87, 0.9, None),
        (Fault("adapter", 4.0, 0.9), "load", 0.87, 0.9, None),
        (Fault("paging", 4.0, 0.9), "paging", 0.87, 0.9, None),
        (Fault("compile", 4.0, 0.9), "compile", 0.87, 0.9, None),
        (Fault("graph_capture", 4.0, 0.9), "graph_capture", 0.87, 0.9, None),
        (Fault("copy", 4.0, 1.0, strength=0.04), "copy", 0.6, 0.85, None),
        (Fault("gil", 4.0, 1.0, strength=0.06), "detokenize", 0.6, 0.85, EngineConfig(single_process=True)),
        (Fault("throttle", 4.0, 1.0), "core_quota", 0.5, 0.8, None),
        (Fault("oversubscription", 4.0, 1.0), "run_queue", 0.4, 0.7, None),
        (Fault("remote_kv", 4.0, 2.0), "remote_kv", 0.5, 0.3, None),
        (Fault("hold", 4.0, 2.0), "admission", 0.5, 0.3, None),
        (Fault("stop", 4.0, 2.0), "stopped", 0.5, 0.3, None),
        (Fault("wedge", 4.0, 2.0), "wedge", 0.0, 2.0, None),
        (Fault("power", 4.0, 1.0, strength=0.25), "power", 0.0, 0.9, None),
        (Fault("thermal", 4.0, 1.0, strength=0.25), "thermal", 0.0, 0.9, None),
        (Fault("cotenant", 4.0, 1.0, strength=0.7), "co_tenant", 0.0, 0.9, None),
        (Fault("straggler", 4.0, 0.9, rank=1), "straggler", 0.87, 0.9, TWO),
        (Fault("straggler", 4.0, 0.9, rank=0), "straggler", 0.87, 0.9, TWO),
        (Fault("collective", 4.0, 0.9), "collective", 0.0, 0.9, TWO),
        (Fault("compile", 4.0, 0.9), "compile", 1.74, 0.9, TWO),
        (Fault("wedge", 4.0, 0.9), "wedge", 0.0, 0.9, TWO),
        (Fault("gc", 4.0, 0.9), "gc", 1.74, 0.9, TWO),
        (Fault("gc", 4.0, 0.9), "gc", 1.74, 0.9, replace(TWO, steps_in_flight=1)),
        (Fault("gc", 4.0, 0.9), "gc", 0.87, 0.9, EngineConfig(steps_in_flight=1)),
    ],
)
def test_the_truth_names_it_and_nothing_else(
    fault: Fault, waited_for: str, idle: float, stall: float, engine: EngineConfig | None
) -> None:
    events = play(fault, engine=engine)
    idled, stalled = seconds_of(events, Idle), seconds_of(events, Stall)
    assert idled[waited_for] >= idle
    assert stalled[waited_for] >= stall
    others = {name for name in (*idled, *stalled) if CAUSES[name] != CAUSES[waited_for]}
    # Afterwards all clients' prompts come at once, and their answers end together.
    assert sum(stalled[name] for name in others - {"prefill", "demand"}) < 0.05
    assert sum(idled[name] for name in others) < 0.05
    assert stalled["prefill"] + stalled["demand"] < 0.6
    assert seconds_of(play(engine=engine), Idle)[waited_for] < 0.01


def test_a_fault_with_a_period_comes_again_until_the_cycle_ends() -> None:
    load = replace(CHATS, until=1e9)
    scenario = Scenario("x", "", (), 5.0, (load,), (Fault("gc", 1.0, 0.1, every=1.5),))
    spans = [each for each in Simulation(scenario).events(9.9) if isinstance(each, HostSpan) and each.phase == "gc"]
    assert [round(each.start, 1) for each in spans] == [1.0, 2.5, 4.0, 6.0, 7.5, 9.0]


@pytest.mark.parametrize(("spins", "busy"), [(True, "collective"), (False, "nothing")])
def test_the_straggler_s_peer_spins_or_stays_idle(spins: bool, busy: str) -> None:
    events = play(Fault("straggler", 4.0, 0.9, rank=1, spins=spins), engine=TWO)
    spun = [each for each in events if isinstance(each, DeviceSpan) and each.kind == "collective"]
    waited = [each for each in events if isinstance(each, Idle) and each.waited_for == "collective"]
    assert [each.device for each in spun] == ([0] if spins else [])
    assert [each.device for each in waited] == ([] if spins else [0])
    [peer] = spun or waited
    assert peer.end - peer.start == pytest.approx(0.9, abs=0.05)
    late = [each for each in events if isinstance(each, HostSpan) and each.thread == "worker/1"]
    assert max(each.end - each.start for each in late if not each.blocked) == pytest.approx(0.9)


@pytest.mark.parametrize("phase", ["gc", "log", "sample"])
def test_a_straggler_is_late_at_its_phase(phase: str) -> None:
    events = play(Fault("straggler", 4.0, 0.9, rank=1, phase=phase), engine=TWO)
    long = [
        each for each in events if isinstance(each, HostSpan) and each.phase == phase and each.end > each.start + 0.5
    ]
    assert [each.thread for each in long] == ["worker/1"]
    assert seconds_of(events, Idle)["straggler"] == pytest.approx(0.9, abs=0.05)


def test_a_straggler_may_only_lack_a_core() -> None:
    events = play(Fault("straggler", 4.0, 0.9, rank=1, phase="run_queue"), engine=TWO)
    wants = [each for each in events if isinstance(each, HostSpan) and each.waits_core]
    assert [(each.thread, each.phase) for each in wants] == [("worker/1", "prepare_batch")]
    assert seconds_of(events, Idle)["straggler"] == pytest.approx(0.9, abs=0.05)


def test_several_ranks_may_be_late_together() -> None:
    four = EngineConfig(tensor_parallel_size=4)
    events = play(Fault("straggler", 4.0, 0.9, rank=3, strength=2), engine=four)
    idle = {each.device for each in events if isinstance(each, Idle) and each.waited_for == "straggler"}
    spun = {each.device for each in events if isinstance(each, DeviceSpan) and each.kind == "collective"}
    assert (idle, spun) == ({3, 0}, {1, 2})


def test_in_a_slow_collective_all_ranks_send() -> None:
    events = play(Fault("collective", 4.0, 0.9), engine=TWO)
    sent = [each for each in events if isinstance(each, DeviceSpan) and each.kind == "transfer"]
    assert [(each.device, round(each.end - each.start, 3)) for each in sent] == [(0, 0.9), (1, 0.9)]


def test_ranks_hand_their_steps_to_workers() -> None:
    spans = [each for each in play(engine=TWO) if isinstance(each, HostSpan)]
    phases = {(each.thread, each.phase) for each in spans}
    assert {("engine", "schedule"), ("engine", "worker_wait"), ("worker/0", "launch"), ("worker/1", "launch")} <= phases
    assert not {("engine", "launch"), ("engine", "device_sync")} & phases


def test_a_throttled_server_runs_no_longer_than_its_quota() -> None:
    events = play(Fault("throttle", 4.0, 1.0, strength=0.7))
    [condition] = [each for each in events if isinstance(each, Condition)]
    assert condition == Condition(4.0, 5.0, "throttled", 0.7)
    for event in events:
        if isinstance(event, HostSpan) and not event.blocked and not event.waits_core and 4.0 < event.start < 4.999:
            place = (event.start - 4.0) % 0.1
            assert place <= 0.03 + 1e-6 or place > 0.1 - 1e-6
            assert event.end - event.start <= 0.03 + 1e-6


def test_contended_threads_wait_at_each_wake_up() -> None:
    events = play(Fault("oversubscription", 4.0, 1.0, strength=10))
    waits = [each for each in events if isinstance(each, HostSpan) and each.thread == "engine" and each.waits_core]
    assert {round(each.end - each.start, 6) for each in waits} == {0.03}
    assert Condition(4.0, 5.0, "runnable", 80.0) in events


def test_the_detokeniser_stops_the_engine_only_in_one_process() -> None:
    fault = Fault("gil", 4.0, 1.0, strength=0.06)
    for single in (True, False):
        events = play(fault, engine=EngineConfig(single_process=single))
        waits = [each for each in events if isinstance(each, HostSpan) and each.blocked and each.phase == "schedule"]
        assert bool(waits) is single


@pytest.mark.parametrize(
    ("fault", "condition"),
    [
        (Fault("compile", 4.0, 0.9), Condition(4.0, 4.9, "compilers", 3.0)),
        (Fault("adapter", 4.0, 0.9), Condition(4.0, 4.9, "read_bytes", 1.5e9)),
        (Fault("paging", 4.0, 0.9), Condition(4.0, 4.9, "major_faults", 2000.0)),
        (Fault("cotenant", 4.0, 0.9), Condition(4.0, 4.9, "foreign", 1.0)),
        (Fault("stop", 4.0, 0.9), Condition(4.0, 4.9, "stopped", 1.0)),
        (Fault("power", 4.0, 0.9), Limit(4.0, 4.9, 0, "power")),
        (Fault("thermal", 4.0, 0.9), Limit(4.0, 4.9, 0, "thermal")),
        (Fault("graph_capture", 4.0, 0.9), None),
    ],
)
def test_what_other_sources_would_see(fault: Fault, condition: Condition | Limit | None) -> None:
    found = [each for each in play(fault) if isinstance(each, Condition | Limit)]
    if condition is None:
        assert found == []
        return
    [seen] = found
    assert seen[2:] == condition[2:]
    assert seen.start == pytest.approx(condition.start, abs=0.05)
    assert seen.end - seen.start == pytest.approx(0.9)


def test_decoding_hardly_minds_a_lower_clock_and_prefill_does() -> None:
    def longest(prefill: bool, *faults: Fault) -> float:
        steps = [
            each for each in play(*faults) if isinstance(each, DeviceSpan) and bool(each.prefill_tokens) is prefill
        ]
        return max(each.end - each.start for each in steps)

    fault = Fault("power", 0.0, 8.0, strength=0.75)
    assert longest(False, fault) == pytest.approx(longest(False), rel=0.05)
    assert longest(True, fault) > 1.2 * longest(True)
    assert {each.clock for each in play(fault) if isinstance(each, DeviceSpan) and each.start < 8.0} == {0.75}


def test_a_co_tenant_takes_its_share() -> None:
    spans = [each for each in play(Fault("cotenant", 4.0, 2.0, strength=0.6)) if isinstance(each, DeviceSpan)]
    foreign = sum(each.end - each.start for each in spans if each.kind == "foreign")
    assert foreign == pytest.approx(1.2, abs=0.1)


def test_a_wedged_step_is_busy_and_gives_nothing() -> None:
    events = play(Fault("wedge", 4.0, 2.0))
    [wedge] = [each for each in events if isinstance(each, DeviceSpan) and each.kind == "wedge"]
    assert not [each for each in events if isinstance(each, StepDone) and wedge.start + 0.01 < each.start < wedge.end]
    assert [each for each in events if isinstance(each, StepDone) and each.outputs and each.start > wedge.end]


def test_after_a_mass_abort_no_message_comes_until_the_next_step() -> None:
    events = play(Fault("abort", 4.0, 2.0))
    steps = [each for each in events if isinstance(each, StepDone)]
    last = max((each for each in steps if each.start < 4.05), key=lambda each: each.start)
    after = min((each for each in steps if each.start > 4.05), key=lambda each: each.start)
    assert last.running >= 15
    assert last.used_blocks > 0
    assert after.start > 6.0
    assert seconds_of(events, Idle)["stale_gauge"] > 1.8
    assert [each for each in steps if each.running == 16 and each.start > 6.5]


def test_a_phantom_lies_over_the_idle_time_of_a_silent_server() -> None:
    quiet = replace(CHATS, until=3.0, once=False)
    events = play(Fault("phantom", 2.0, 3.0), clients=quiet)
    phantoms = [each for each in events if isinstance(each, DeviceSpan) and each.kind == "phantom"]
    idle = [each for each in events if isinstance(each, Idle) and each.waited_for == "phantom"]
    assert [(each.start, each.end) for each in phantoms] == [(each.start, each.end) for each in idle]
    assert sum(each.end - each.start for each in idle) == pytest.approx(2.0, abs=0.3)
    assert max(each.end for each in idle) == 5.0
    stale = play(Fault("abort", 3.0, 3.0), Fault("phantom", 4.0, 1.0))
    assert seconds_of(stale, Idle)["phantom"] == pytest.approx(1.0)


def test_a_stopped_front_end_books_nothing_until_it_goes_on() -> None:
    steps = [each for each in play(Fault("stop", 4.0, 2.0)) if isinstance(each, StepDone)]
    inside = [each for each in steps if 4.0 <= each.start < 6.0]
    assert len(inside) > 20
    assert all(each.end >= 6.0 for each in inside)
    assert sum(each.end - each.start < 0.01 for each in steps if each.start > 6.0) > 50


def test_requests_that_wait_for_a_transfer_are_told_as_deferred() -> None:
    steps = [each for each in play(Fault("remote_kv", 4.0, 2.0)) if isinstance(each, StepDone)]
    deferred = [each for each in steps if each.deferred]
    assert max(each.deferred for each in deferred) == 16
    assert all(each.deferred == each.waiting and 4.0 <= each.start <= 6.0 for each in deferred)
    assert not [each for each in play(Fault("hold", 4.0, 2.0)) if isinstance(each, StepDone) and each.deferred]


@pytest.mark.parametrize(
    "bad",
    [{"place": "throttle", "strength": 1.0}, {"place": "cotenant", "strength": 1.5}, {"place": "gc", "every": -1.0}],
)
def test_a_fault_that_would_never_end_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a fault"):
        Fault(at=1.0, seconds=1.0, **bad)


@pytest.mark.parametrize("name", sorted(name for name, each in SCENARIOS.items() if each.causes))
def test_each_scenario_has_the_causes_that_it_promises(name: str) -> None:
    scenario = SCENARIOS[name]
    seconds: dict[str, float] = defaultdict(float)
    for event in Simulation(scenario, 2).events(2.5 * scenario.period):
        if isinstance(event, Idle | Stall) and event.start > 1.0:
            seconds[event.cause] += event.end - event.start
    assert all(seconds[cause] > 0.5 for cause in scenario.causes)
