"""Faults whose strength changes what is seen of them, and not what they are."""

from __future__ import annotations

import pytest

from gaptop.lab.core.events import DeviceSpan, Event, Idle, Stall, StepDone
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.personality import DECODE_WATTS, WEDGE_WATTS, draw_of

CHATS = Clients(count=16, start=0.0, until=1e9, prompt=(60, 100), output=(40, 70), once=True)


def play(fault: Fault, **settings: int) -> list[Event]:
    scenario = Scenario("x", "", (), 60.0, (CHATS,), (fault,), engine=EngineConfig(**settings))  # type: ignore[arg-type]
    return list(Simulation(scenario, 1).events(9.0))


@pytest.mark.parametrize(
    ("power", "watts"), [(0.0, WEDGE_WATTS), (0.5, (WEDGE_WATTS + DECODE_WATTS) / 2), (1.0, DECODE_WATTS)]
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_wedge_draws_a_fifth_of_the_limit_or_as_much_as_work(power: float, watts: float, ranks: int) -> None:
    events = play(Fault("wedge", 4.0, 2.0, power), tensor_parallel_size=ranks)
    wedges = [item for item in events if isinstance(item, DeviceSpan) and item.kind == "wedge"]
    assert len(wedges) == ranks
    assert {draw_of(item).watts for item in wedges} == {watts}
    assert (
        sum(item.end - item.start for item in events if isinstance(item, Stall) and item.waited_for == "wedge") >= 2.0
    )


def test_deferred_requests_take_the_places_of_running_ones() -> None:
    """Ten may run and sixteen ask: the more of the ten end, the more are deferred, and six wait for a place."""
    events = play(Fault("hold", 4.0, 4.0, 1.0), max_num_seqs=10)
    held = [item for item in events if isinstance(item, StepDone) and 4.1 < item.start < 7.9]
    assert all(item.running + item.deferred <= 10 for item in held)
    assert any(item.running and item.deferred for item in held)
    assert (held[-1].running, held[-1].deferred, held[-1].waiting) == (0, 10, 16)
    idle = [item for item in events if isinstance(item, Idle) and 6.0 < item.start < 7.9]
    assert {item.waited_for for item in idle} == {"admission"}
    plain = [item for item in play(Fault("hold", 4.0, 4.0), max_num_seqs=10) if isinstance(item, StepDone)]
    assert {item.deferred for item in plain} == {0}
