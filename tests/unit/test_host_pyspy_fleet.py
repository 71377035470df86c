"""All recorders together stay inside the budget by what they really use, whatever starts and samples cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop_collectors.collector import Hole, SourceInfo, Stacks
from gaptop_collectors.host.pyspy_budget import BUDGET, LONGEST_WINDOW
from gaptop_collectors.target import Role
from tests.unit.pyspy_costs import SECOND, Costs, CostWorld, fleet_of

HOUR = 3600.0
GUESSED = 140e-6


def world_of(*costs: Costs) -> CostWorld:
    return CostWorld({100 + n: item for n, item in enumerate(costs)})


def covered(world: CostWorld, pid: int = 100) -> float:
    windows = [message for message in world.messages if isinstance(message, Stacks)]
    return sum(item.covered[1] - item.covered[0] for item in windows if item.source == f"threads/{pid}") / SECOND


def says(world: CostWorld, pid: int = 100) -> list[str]:
    infos = [message for message in world.messages if isinstance(message, SourceInfo)]
    return [info.says for info in infos if info.source == f"threads/{pid}"]


@settings(max_examples=12, deadline=None)
@given(
    threads=st.integers(1, 2000),
    start=st.floats(0.005, 0.2),
    thread=st.floats(5e-6, 500e-6),
    reading=st.floats(0.002, 0.05),
    workers=st.sampled_from([0, 0, 0, 1, 3]),
)
def test_the_budget_holds_in_the_long_run_whatever_anything_costs(
    threads: int, start: float, thread: float, reading: float, workers: int
) -> None:
    costs = Costs(threads, start, thread, reading)
    world = world_of(*[costs] * (workers + 2))
    roles: list[Role] = ["engine", "api"]
    roles[1:1] = ["worker"] * workers
    with fleet_of(world, roles) as fleet:
        world.run(fleet, HOUR)
    assert world.spent() / HOUR <= BUDGET * 1.05
    assert covered(world) > 0, "and still something is seen"


@pytest.mark.parametrize("threads", [7, 60, 160])
@pytest.mark.parametrize("thread", [27e-6, GUESSED])
def test_an_ordinary_server_is_watched_without_a_pause(threads: int, thread: float) -> None:
    world = world_of(Costs(threads, 0.009, thread))
    with fleet_of(world) as fleet:
        world.run(fleet, 12.0)
        assert world.spent() / 12.0 <= BUDGET + 0.3 / 12.0, "no more than what was there to be spent"
        world.run(fleet, 600.0)
    assert world.spent() / 612.0 <= BUDGET
    assert covered(world) == pytest.approx(612.0, abs=20.0)
    assert says(world)[-1].partition(" Hz")[0].isdigit()
    assert not any(message.start_ns > 2 * SECOND for message in world.messages if isinstance(message, Hole))


def test_samples_too_dear_for_any_rate_make_it_rest_and_say_so() -> None:
    world = world_of(Costs(2000, 0.02, 100e-6))
    with fleet_of(world) as fleet:
        world.run(fleet, HOUR)
    assert BUDGET * 0.8 <= world.spent() / HOUR <= BUDGET, "it is used, though"
    assert 0.1 * HOUR < covered(world) < 0.3 * HOUR
    told = says(world)
    assert any(text.startswith("1 Hz, ") and "with pauses that keep it inside 4% of a core" in text for text in told)
    resting = [text for text in told if text.startswith("paused until")]
    assert resting
    assert "--threads fast" in resting[0]
    paused = [message for message in world.messages if isinstance(message, SourceInfo) and message.paused]
    assert {info.says for info in paused} == set(resting)
    holes = [message for message in world.messages if isinstance(message, Hole)]
    assert sum(hole.end_ns - hole.start_ns for hole in holes) / SECOND + covered(world) == pytest.approx(HOUR, abs=60.0)
    assert any(hole.reason == "paused until what py-spy has cost is paid back" for hole in holes)


def test_dear_starts_are_answered_with_long_windows() -> None:
    world = world_of(*[Costs(3, 0.2, 27e-6)] * 4)
    with fleet_of(world, ("engine", "worker", "worker", "worker")) as fleet:
        world.run(fleet, 600.0)
        windows = {roller.pace.window_ns / SECOND for roller in fleet.rollers.values()}
    assert windows == {LONGEST_WINDOW}
    assert world.spent() / 600.0 <= BUDGET * 1.05
    assert all(covered(world, pid) > 500 for pid in world.costs)


def test_processes_do_not_all_begin_before_one_start_is_paid_for() -> None:
    world = world_of(*[Costs(3, 0.2, 27e-6)] * 20)
    with fleet_of(world, ("engine", *("worker",) * 19)) as fleet:
        world.run(fleet, 10.0)
        assert world.spent() <= 10.0 * BUDGET + 0.1 + 0.3 + 3 * 0.2
        assert 0 < len(world.recorders) < 20
        world.run(fleet, 900.0)
    assert all(covered(world, pid) > 0 for pid in world.costs), "but each has its turn"


def test_a_process_that_is_left_out_by_now_is_let_go() -> None:
    world = world_of(Costs(7, 0.009, GUESSED), Costs(1, 0.009, GUESSED))
    with fleet_of(world, ("engine", "api")) as fleet:
        world.run(fleet, 30.0)
        assert says(world, 101)[-1][0].isdigit()
        world.costs[101].threads = 400
        world.run(fleet, 30.0)
    api = [item for item in world.recorders if item.pid == 101]
    assert api
    assert all(item.code == 0 for item in api), "none goes on sampling unread"
    assert says(world, 101)[-1].startswith("left out")
    assert covered(world, 101) > 0, "what it saw until then is delivered"


def test_what_a_sibling_costs_lets_a_process_in_that_a_guess_would_leave_out() -> None:
    cheap = Costs(60, 0.009, 5e-6)
    world = world_of(cheap, cheap)
    with fleet_of(world, ("engine", "api")) as fleet:
        world.run(fleet, 60.0)
    assert covered(world, 101) > 40
    assert world.spent() / 60.0 <= BUDGET


def test_a_rate_that_changes_is_not_paid_for_with_dear_hand_overs() -> None:
    world = world_of(*[Costs(3, 0.2, 27e-6)] * 4)
    with fleet_of(world, ("engine", "worker", "worker", "worker")) as fleet:
        world.run(fleet, 600.0)
    assert len(world.recorders) <= 4 * 600 / LONGEST_WINDOW * 1.3


def test_fast_is_never_paused() -> None:
    world = world_of(Costs(160, 0.009, GUESSED))
    with fleet_of(world, fast=True) as fleet:
        world.run(fleet, 60.0)
    assert world.spent() / 60.0 > 5 * BUDGET
    assert covered(world) > 55
    assert says(world)[-1].startswith("100 Hz, 1 s windows")


def test_a_closer_look_is_paid_from_what_was_saved() -> None:
    world = world_of(Costs(7, 0.009, 27e-6))
    with fleet_of(world) as fleet:
        world.run(fleet, 30.0)
        saved = fleet.purse.saved
        assert saved > 0.2
        for _ in range(200):
            fleet.look_closer(3.0, world.now)
            world.run(fleet, 3.0)
    assert max(item.rate for item in world.recorders) == 100
    assert world.spent() / 630.0 <= BUDGET
