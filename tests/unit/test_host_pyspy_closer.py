"""Closer looks, and rates that change while a recorder runs."""

from __future__ import annotations

import time
from typing import cast

import pytest

from gaptop_collectors.collector import SourceInfo, Stacks
from gaptop_collectors.host.pyspy_pace import SECOND
from tests.unit.pyspy_world import World, live_for


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.now)
    return made


def test_a_closer_look_begins_at_once_and_ends_by_itself(world: World) -> None:
    first = live_for(world, 1.0)
    world.roller.pace.look_closer(100, 2 * SECOND)
    world.go(0.1)
    second = world.recorders[1]
    assert second.rate == 100
    infos = cast(list[SourceInfo], world.of(SourceInfo))
    assert infos[-1].says == "50 Hz, 4 s windows, at this moment 100 Hz"
    assert infos[-1].error > 2.0 / 50, "what comes next is still of the slow recorder"
    second.go_live(world.now)
    world.go(0.2)
    assert first.asked_ns is not None
    first.write(world.now)
    world.go(1.6)
    assert len(world.recorders) == 2
    world.go(0.4)
    assert [recorder.rate for recorder in world.recorders] == [50, 100, 50]
    world.recorders[2].go_live(world.now)
    world.go(0.3)
    second.write(world.now)
    world.go(0.1)
    assert cast(list[SourceInfo], world.of(SourceInfo))[-1].says == "50 Hz, 4 s windows"
    covered = [item.covered for item in cast(list[Stacks], world.of(Stacks))]
    assert covered[0][1] == covered[1][0], "what was seen before it is delivered, and nothing lies between"


def test_a_closer_look_is_forgotten_when_nothing_can_be_seen(world: World) -> None:
    world.go(0.1)
    world.roller.pace.look_closer(100, 2 * SECOND)
    world.recorders[-1].fail("Error: out of luck")
    world.go(2.0)
    assert world.recorders[-1].rate == 50


def test_py_spy_that_says_it_is_behind_is_followed_by_a_slower_one(world: World) -> None:
    first = live_for(world, 3.1)
    first.behind = True
    world.go(0.1)
    assert [recorder.rate for recorder in world.recorders] == [50, 33], "not at the end of the window"
    world.recorders[1].go_live(world.now)
    world.go(0.3)
    first.write(world.now)
    world.go(4.2)
    assert world.recorders[2].rate == 33, "counted once"


def test_a_rate_far_from_the_planned_one_is_not_kept_to_the_end(world: World) -> None:
    live_for(world, 1.0)
    world.roller.pace.rate = 20
    world.go(1.9)
    assert len(world.recorders) == 1
    world.go(0.3)
    assert world.recorders[1].rate == 20


def test_several_processes_do_not_start_at_one_moment() -> None:
    begun = []
    for place in range(3):
        world = World()
        world.roller.stagger(place, world.now)
        start = world.now
        while not world.recorders:
            world.go(0.05)
        begun.append((world.now - start) / SECOND)
    assert begun == pytest.approx([0.05, 0.3, 0.6], abs=0.06)


def test_a_first_glance_tells_the_cost_before_the_second_recorder_is_planned(world: World) -> None:
    world.roller.learnt.guess = 0.001
    live_for(world, 0.9)
    assert world.roller.learnt.tick is None
    assert not world.roller.measured()
    world.go(0.2)
    assert world.roller.measured()
    # 0.03 s over 50 ticks and the guess over 3.
    assert world.roller.learnt.tick == pytest.approx((0.03 + 0.003) / 53, rel=0.1)
    assert len(world.recorders) == 1
