"""Two troubles at once: each stretch of time belongs to what the device, or the requests, really waited for."""

from __future__ import annotations

from collections import defaultdict

import pytest

from gaptop.lab.core.events import DeviceSpan, Event, HostSpan, Idle, Open, Slow, Stall, StepDone
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation

CHATS = Clients(count=16, start=0.0, until=1e9, prompt=(60, 100), output=(40, 70), once=True)


def play(*faults: Fault, until: float = 9.0) -> list[Event]:
    """Chats with ``faults``."""
    scenario = Scenario("x", "", (), 60.0, (CHATS,), faults, engine=EngineConfig())
    return list(Simulation(scenario, 1).events(until))


def told(events: list[Event], kind: type[Idle | Stall | Slow], start: float, end: float) -> dict[str, float]:
    """Seconds over [start, end) by what was waited for."""
    found: dict[str, float] = defaultdict(float)
    for event in events:
        if isinstance(event, kind):
            inside = min(event.end, end) - max(event.start, start)
            if inside > 0:
                found[event.waited_for] += inside
    return found


def test_a_collection_inside_a_hold_is_a_collection_until_it_ends() -> None:
    idle = told(play(Fault("hold", 4.0, 4.0), Fault("gc", 4.2, 0.9)), Idle, 4.0, 8.0)
    assert idle["gc"] == pytest.approx(0.9, abs=0.05)
    assert idle["admission"] > 1.0
    assert sum(idle.values()) - idle["gc"] - idle["admission"] < 0.1


def test_of_two_reasons_not_to_admit_the_last_to_end_is_waited_for() -> None:
    events = play(Fault("hold", 3.0, 3.5), Fault("remote_kv", 5.5, 2.5))
    before, after = told(events, Idle, 4.8, 5.5), told(events, Idle, 5.5, 8.0)
    assert set(before) == {"admission"}
    assert after["remote_kv"] == pytest.approx(2.5, abs=0.1)
    assert after["admission"] < 0.01


def test_compiling_under_a_quota_waits_for_the_quota_most_of_the_time() -> None:
    idle = told(play(Fault("throttle", 4.0, 3.0, strength=0.75), Fault("compile", 4.1, 0.4)), Idle, 4.1, 5.8)
    assert idle["compile"] == pytest.approx(0.4, abs=0.05)
    assert idle["core_quota"] == pytest.approx(1.2, abs=0.15)


@pytest.mark.parametrize("faults", [("power", "thermal"), ("thermal", "power")])
def test_the_lower_of_two_clocks_counts(faults: tuple[str, str]) -> None:
    high, low = faults
    events = play(Fault(high, 3.0, 4.0, strength=0.4), Fault(low, 4.5, 1.5, strength=0.2))  # type: ignore[arg-type]
    clocks = {round(item.clock, 2) for item in events if isinstance(item, DeviceSpan) and 4.7 < item.start < 5.8}
    assert clocks == {0.2}
    stalls = told(events, Stall, 4.7, 5.8)
    assert stalls[low] > 1.0
    assert stalls[high] < 0.01


def test_a_lasting_cap_hides_no_deeper_one() -> None:
    events = play(Fault("power", 0.0, 60.0, strength=0.92), Fault("power", 4.0, 2.0, strength=0.2))
    assert told(events, Stall, 4.2, 6.0)["power"] > 1.6
    clocks = {round(item.clock, 2) for item in events if isinstance(item, DeviceSpan) and item.start > 6.3}
    assert clocks == {0.92}


@pytest.mark.parametrize(
    ("fault", "waited_for"),
    [(Fault("power", 4.0, 2.0, strength=0.5), "power"), (Fault("cotenant", 4.0, 2.0, strength=0.3), "co_tenant")],
)
def test_what_is_merely_slow_has_its_reason_and_is_no_stall(fault: Fault, waited_for: str) -> None:
    """Seven tenths of the tokens come. All clients ask, so that it is nobody's lack of demand."""
    events = play(fault)
    slow = told(events, Slow, 4.2, 6.0)
    assert slow[waited_for] > 1.2
    assert slow["demand"] < 0.1
    assert sum(told(events, Stall, 4.2, 6.0).values()) < 0.2


def test_one_client_that_hangs_up_leaves_the_others_alone() -> None:
    plain, events = play(), play(Fault("hang_up", 4.0, 0.0, every=1.0))
    left = [item for item in events if isinstance(item, Open) and item.change < 0]
    finished = sum(
        output.finished is not None for item in events if isinstance(item, StepDone) for output in item.outputs
    )
    assert len(left) == finished + 5
    assert sum(told(events, Idle, 4.0, 9.0).values()) < sum(told(plain, Idle, 4.0, 9.0).values()) + 0.1
    running = [item.running for item in events if isinstance(item, StepDone) and item.start > 4.0]
    assert min(running) >= 10


def test_a_log_of_the_front_end_holds_up_messages_and_not_the_device() -> None:
    events = play(Fault("access_log", 4.0, 0.05))
    logs = [item for item in events if isinstance(item, HostSpan) and item.phase == "log"]
    assert [item.thread for item in logs] == ["output"]
    assert logs[0].end - logs[0].start == pytest.approx(0.05)
    late = [item for item in events if isinstance(item, StepDone) and item.end - item.start > 0.05]
    assert late
    assert sum(told(events, Idle, 4.0, 4.3).values()) == pytest.approx(sum(told(play(), Idle, 4.0, 4.3).values()))


def test_the_same_troubles_are_the_same_events() -> None:
    faults = (
        Fault("throttle", 4.0, 2.0, strength=0.4),
        Fault("power", 5.0, 3.0, strength=0.5),
        Fault("hang_up", 3.0, 0.0, every=0.7),
        Fault("access_log", 3.5, 0.02, every=0.9),
    )
    assert play(*faults) == play(*faults)
