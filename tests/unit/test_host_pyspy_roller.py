"""Hand-over: the next recorder samples before the last one ends, failures become holes, early ones are rationed."""

from __future__ import annotations

import time
from typing import cast

import pytest

from gaptop_collectors.collector import Delivered, Hole, SourceInfo, Stacks
from tests.unit.pyspy_world import MS, World, live_for


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.now)
    return made


def test_the_next_recorder_samples_before_the_last_is_asked(world: World) -> None:
    first = live_for(world, 3.8)
    assert len(world.recorders) == 1
    world.go(0.4)
    second = world.recorders[1]
    assert first.asked_ns is None
    second.go_live(world.now)
    world.go(0.05)
    assert first.asked_ns is None, "five ticks of both, so that sampling luck leaves no gap"
    world.go(0.1)
    assert first.asked_ns is not None
    first.write(world.now)
    world.go(0.05)
    stacks = cast(list[Stacks], world.of(Stacks))
    assert [item.covered for item in stacks] == [first.covered]
    assert world.out[-1] == Delivered("threads/4242", stacks[0].covered[1])
    assert world.of(Hole) == []


def test_windows_join_without_overlap(world: World) -> None:
    first = live_for(world, 4.2)
    second = world.recorders[1]
    second.go_live(world.now)
    world.go(0.2)
    first.write(world.now)
    world.go(4.2)
    third = world.recorders[2]
    third.go_live(world.now)
    world.go(0.2)
    second.write(world.now)
    world.go(0.1)
    covered = [item.covered for item in cast(list[Stacks], world.of(Stacks))]
    assert covered[0][1] == covered[1][0]
    assert world.of(Hole) == []


def test_a_recorder_that_never_writes_is_killed_and_leaves_a_hole(world: World) -> None:
    began = world.now
    first = live_for(world, 4.2)
    second = world.recorders[1]
    second.go_live(world.now)
    world.go(0.2)
    assert first.asked_ns is not None
    world.go(4.2)
    third = world.recorders[2]
    third.go_live(world.now)
    world.go(0.2)
    second.write(world.now)
    world.go(5.0)
    assert not first.killed
    world.go(1.0)
    assert first.killed
    # The first window is lost; no trace came before it, so there is no gap between two to speak of.
    covered = [item.covered for item in cast(list[Stacks], world.of(Stacks))]
    assert covered == [second.covered]
    holes = cast(list[Hole], world.of(Hole))
    assert [(hole.start_ns, hole.end_ns) for hole in holes] == [(began, second.live_ns)]
    assert holes[0].reason == "py-spy did not write in time what it had sampled, and was ended"


def test_a_trace_that_cannot_be_read_is_a_hole_with_its_reason(world: World) -> None:
    first = live_for(world, 4.2)
    world.recorders[1].go_live(world.now)
    world.go(0.2)
    first.write(world.now)
    first.bad = True
    world.go(0.1)
    infos = cast(list[SourceInfo], world.of(SourceInfo))
    assert "not JSON" in infos[-1].says


def test_a_refusal_is_a_hole_each_second_and_is_tried_again_ever_more_rarely(world: World) -> None:
    world.go(0.1)
    for _ in range(20):
        world.recorders[-1].fail("Permission Denied: Try running again")
        world.go(1.0)
    assert 4 <= len(world.recorders) <= 6
    holes = cast(list[Hole], world.of(Hole))
    assert len(holes) >= 15
    assert "4242" in holes[-1].reason
    assert all(before.end_ns == after.start_ns for before, after in zip(holes, holes[1:], strict=False))
    assert world.roller.lost
    assert world.roller.trouble is not None
    assert world.roller.trouble.state == "refused"


def test_an_early_hand_over_comes_at_once_but_only_once_in_three_seconds(world: World) -> None:
    live_for(world, 1.0)
    world.roller.pace.hand_over_early()
    world.go(1.0)
    assert len(world.recorders) == 1
    world.go(1.2)
    assert len(world.recorders) == 2, "three seconds after the last hand-over"


def test_a_target_that_ends_delivers_its_last_window(world: World) -> None:
    first = live_for(world, 2.0)
    first.output = "py-spy> Stopped sampling because process exited"
    first.write(world.now - 100 * MS)
    world.go(0.1)
    assert [item.covered for item in cast(list[Stacks], world.of(Stacks))] == [first.covered]
    world.roller.retire()
    for recorder in world.recorders[1:]:
        recorder.fail("No such file or directory (os error 2)")
    world.go(0.2)
    assert world.roller.over


def test_falling_behind_lowers_the_rate_and_says_so(world: World) -> None:
    first = live_for(world, 4.2)
    world.recorders[1].go_live(world.now)
    world.go(0.2)
    first.behind = True
    first.write(world.now)
    world.go(4.2)
    assert world.recorders[2].rate == 33
    infos = cast(list[SourceInfo], world.of(SourceInfo))
    assert "fell behind" in infos[-1].says
    assert infos[-1].says.startswith("33 Hz, 4 s windows")


def test_the_source_names_its_threads_and_states_its_error(world: World) -> None:
    first = live_for(world, 4.2)
    world.recorders[1].go_live(world.now)
    world.go(0.2)
    first.write(world.now)
    world.go(0.1)
    info = cast(list[SourceInfo], world.of(SourceInfo))[-1]
    assert info.source == "threads/4242"
    assert info.entity["threads"] == [{"tid": 4242, "name": "MainThread"}]
    assert info.entity["critical_tid"] == 4242
    assert 2.0 / 50 < info.error < 0.1
    assert info.says == "50 Hz, 4 s windows"


def test_a_process_without_a_rate_is_left_out_and_said_to_be(world: World) -> None:
    world.roller.pace.rate = 0
    world.go(2.5)
    assert world.recorders == []
    holes = cast(list[Hole], world.of(Hole))
    assert "budget" in holes[0].reason
    info = cast(list[SourceInfo], world.of(SourceInfo))[-1]
    assert info.paused
    assert "4% of a core" in info.says


def test_a_recorder_that_is_let_go_before_it_has_begun_is_no_failure(world: World) -> None:
    world.go(0.1)
    world.roller.pace.rate = 0
    world.go(0.1)
    assert world.recorders[0].asked_ns is not None
    world.recorders[0].code = -2  # SIGINT came before py-spy listened to it
    world.go(2.0)
    assert world.roller.trouble is None
    holes = cast(list[Hole], world.of(Hole))
    assert {hole.reason for hole in holes} == {"left out to keep py-spy inside its budget"}


def test_a_slow_recorder_has_the_time_to_reach_its_next_tick() -> None:
    world = World(rate=1)
    first = live_for(world, 4.2)
    world.recorders[1].go_live(world.now)
    world.go(14.0)
    assert first.asked_ns is not None
    assert not first.killed
    world.go(6.0)
    assert first.killed
