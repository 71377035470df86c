"""What was sampled is delivered although somebody was late: a recorder that writes after the next one, one that is kept
off its core before its first look, we ourselves; and a recorder that breaks down is followed at once."""

from __future__ import annotations

import time
from typing import cast

import pytest

from gaptop_collectors.collector import Hole, Stacks
from gaptop_collectors.host.pyspy_pace import SECOND
from tests.unit.pyspy_world import MS, FakeRecorder, World, live_for


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.now)
    return made


def next_one(world: World, seconds: float) -> FakeRecorder:
    """The next recorder takes over from the last one, which is asked to write, and goes on for so long."""
    recorder = world.recorders[-1]
    recorder.go_live(world.now)
    world.go(seconds)
    return recorder


def covered(world: World) -> list[tuple[int, int]]:
    return [item.covered for item in cast(list[Stacks], world.of(Stacks))]


def reasons(world: World) -> list[str]:
    return [hole.reason for hole in cast(list[Hole], world.of(Hole))]


def test_a_window_that_is_written_after_the_next_one_is_not_lost(world: World) -> None:
    first = live_for(world, 4.2)
    second = next_one(world, 4.2)
    next_one(world, 0.2)
    assert first.asked_ns is not None
    assert second.asked_ns is not None
    second.write(world.now)
    world.go(0.1)
    assert covered(world) == [], "what the first one has seen cannot be put in behind it"
    first.write(first.asked_ns + 20 * MS)
    world.go(0.1)
    assert second.covered is not None
    assert covered(world) == [first.covered, (first.asked_ns + 20 * MS, second.covered[1])]
    assert reasons(world) == []


def test_the_last_window_waits_for_the_one_before_it(world: World) -> None:
    first = live_for(world, 4.2)
    second = next_one(world, 1.0)
    assert first.asked_ns is not None
    second.output = "py-spy> Stopped sampling because process exited"
    second.write(world.now)
    world.go(0.1)
    assert covered(world) == []
    first.write(first.asked_ns + 20 * MS)
    world.go(0.1)
    assert second.covered is not None
    assert covered(world) == [first.covered, (first.asked_ns + 20 * MS, second.covered[1])]
    assert reasons(world) == []


def test_a_recorder_whose_trace_still_comes_in_is_not_ended(world: World) -> None:
    first = live_for(world, 4.2)
    next_one(world, 0.2)
    for _ in range(4):
        world.go(8.0)
        first.heard_ns = world.now
    assert not first.killed


def test_our_own_lateness_ends_no_recorder(world: World) -> None:
    first = live_for(world, 4.2)
    next_one(world, 0.2)
    assert first.asked_ns is not None
    # We are kept off our core for half a minute; then the first part of what it has written since is read.
    world.now += 30 * SECOND
    first.heard_ns = world.now
    world.go(0.05)
    assert not first.killed
    first.write(first.asked_ns + 20 * MS)
    world.go(0.1)
    assert covered(world) == [first.covered]


def test_the_one_before_goes_on_until_the_next_one_has_looked(world: World) -> None:
    first = live_for(world, 4.2)
    second = world.recorders[1]
    second.go_live(world.now)
    second.sampled = False  # it is kept off its core
    world.go(1.5)
    assert first.asked_ns is None
    second.sampled = True
    world.go(0.05)
    assert first.asked_ns is not None


def test_one_that_is_not_seen_to_look_takes_over_in_the_end(world: World) -> None:
    first = live_for(world, 4.2)
    second = world.recorders[1]
    second.go_live(world.now)
    second.sampled = False
    world.go(3.3)
    assert first.asked_ns is not None


def test_one_that_breaks_down_is_followed_at_once_and_said_to_have(world: World) -> None:
    first = live_for(world, 4.2)
    second = next_one(world, 0.2)
    first.write(world.now)
    world.go(1.0)
    until = covered(world)[-1][1]
    second.output, second.code = "thread 'main' panicked at src/sampler.rs:218:22", 101
    world.go(0.05)
    assert len(world.recorders) == 3
    third = next_one(world, 4.2)
    next_one(world, 0.2)
    third.write(world.now)
    world.go(0.05)
    holes = cast(list[Hole], world.of(Hole))
    assert holes[0].start_ns == until
    assert holes[-1].end_ns == third.live_ns
    assert sum(hole.end_ns - hole.start_ns for hole in holes) < 1.3 * SECOND
    assert "panicked" in holes[0].reason


def test_one_that_breaks_down_again_and_again_is_not(world: World) -> None:
    live_for(world, 1.0)
    for _ in range(100):
        last = world.recorders[-1]
        last.go_live(world.now)
        last.output, last.code = "panicked", 101
        world.go(0.1)
    assert len(world.recorders) <= 5


def test_a_next_recorder_that_has_been_started_is_not_started_twice(world: World) -> None:
    first = live_for(world, 4.2)
    assert len(world.recorders) == 2
    first.write(world.now)
    world.go(1.0)
    assert len(world.recorders) == 2


def test_what_was_let_go_before_its_first_look_is_followed_without_a_wait(world: World) -> None:
    live_for(world, 4.2).write(world.now)
    world.roller.pace.rate = 0
    world.go(0.05)
    world.recorders[1].code = -2
    world.go(0.1)
    world.roller.pace.rate = 50
    world.go(0.05)
    assert len(world.recorders) == 3


def test_a_window_without_a_sample_is_a_hole_that_says_why(world: World) -> None:
    first = live_for(world, 4.2)
    second = next_one(world, 4.2)
    assert first.asked_ns is not None
    first.write(first.asked_ns + 20 * MS)
    third = next_one(world, 0.2)
    second.errors, second.code = 190, 0
    world.go(4.2)
    next_one(world, 0.2)
    third.write(world.now)
    world.go(0.05)
    assert cast(list[Hole], world.of(Hole)) == [
        Hole("threads/4242", first.asked_ns + 20 * MS, third.live_ns or 0, "all 190 samples of a py-spy failed")
    ]


def test_it_is_asked_soon_again_whether_the_next_one_has_looked(world: World) -> None:
    live_for(world, 4.2)
    second = world.recorders[1]
    second.go_live(world.now)
    second.sampled = False
    world.go(0.5)
    assert 0 < world.roller.next_step(world.now) - world.now <= 10 * MS


def test_a_late_start_is_one_hole_with_one_reason(world: World) -> None:
    world.go(2.5)
    first = next_one(world, 4.2)
    next_one(world, 0.2)
    first.write(world.now)
    world.go(0.05)
    assert covered(world) == [first.covered]
    assert reasons(world) == ["py-spy is starting"] * 3
