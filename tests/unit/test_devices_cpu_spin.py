"""Busy-waiting told from work: what a pool's times prove, and what they do not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from gaptop_collectors.devices.cpu_spin import BOOKED_NS, Judged, Main, Part, Sleep, Spin

MS = 1_000_000
WINDOW = 100 * MS
AWAKE = Main(Part(WINDOW, 0), True, "")
NEXT = Part(WINDOW, 0)


def asleep(sleep: Sleep = "elsewhere", ran_ms: int = 0) -> Main:
    return Main(Part(ran_ms * MS, 0), False, sleep)


def worker(ran_ms: int, waited_ms: int = 0) -> dict[int, Part]:
    return {11: Part(ran_ms * MS, waited_ms * MS)}


def judged(spin: Spin, windows: Sequence[tuple[Main, dict[int, Part]]]) -> list[Judged]:
    """Every window with the next one's main thread known, as the collector does it."""
    following = [main.part for main, _ in windows[1:]] + [None]
    return [spin.judge(WINDOW, main, after, parts) for (main, parts), after in zip(windows, following, strict=True)]


def test_a_pool_that_runs_on_beside_a_sleeping_main_thread_spins() -> None:
    spin = Spin()
    busy, *rest = judged(spin, [(AWAKE, worker(100)), (asleep(), worker(100)), (asleep(), worker(100))])
    assert busy == Judged(200 * MS)
    assert spin.spins
    assert sum(one.work_ns for one in rest) <= BOOKED_NS, "not more than the kernel may have booked late"
    assert sum(one.spun_ns for one in rest) >= 200 * MS - BOOKED_NS


def test_once_shown_the_main_threads_wish_bounds_the_work_of_every_window() -> None:
    spin = Spin()
    judged(spin, [(asleep(), worker(100)), (asleep(), worker(100))])
    (mixed,) = judged(spin, [(asleep("", 40), worker(100))])
    assert mixed == Judged(80 * MS, 60 * MS)


@pytest.mark.parametrize("sleep", ["pool", ""])
def test_work_beside_a_main_thread_that_waits_for_it_is_never_discounted(sleep: Sleep) -> None:
    """The worker has the larger share; the main thread sleeps at the end of its own, or this user may not know."""
    spin = Spin()
    seen = judged(spin, [(AWAKE, worker(100)), *[(asleep(sleep), worker(100))] * 5])
    assert not spin.spins
    assert sum(one.work_ns for one in seen) == 700 * MS
    assert sum(one.spun_ns for one in seen) == 0
    assert sum(one.doubtful_ns for one in seen) == pytest.approx(500 * MS, abs=BOOKED_NS), "but it may be spinning"


def test_a_main_thread_seen_asleep_in_the_pool_disproves_the_spinning() -> None:
    spin = Spin()
    judged(spin, [(asleep(), worker(100))])
    assert spin.spins
    (after,) = judged(spin, [(asleep("pool", 40), worker(100))])
    assert spin.spins is False
    assert after.work_ns == 140 * MS


def test_a_pool_that_sleeps_with_its_main_thread_does_not_spin() -> None:
    spin = Spin()
    judged(spin, [(asleep(), worker(100)), (AWAKE, worker(100)), (asleep(), worker(5))])
    assert spin.spins is False
    (mixed,) = judged(spin, [(asleep("", 40), worker(90))])
    assert mixed.work_ns == 130 * MS


def test_a_pool_that_falls_asleep_later_in_the_silence_still_counts_as_spinning() -> None:
    """ggml polls for 0.1 s and more, then sleeps: what counts is whether it sleeps before the main thread would."""
    spin = Spin()
    judged(spin, [(AWAKE, worker(100)), (asleep(), worker(100)), (asleep(), worker(0)), (asleep(), worker(0))])
    assert spin.spins


def test_one_that_cannot_spin_is_believed() -> None:
    spin = Spin()
    spin.may = False
    assert judged(spin, [(AWAKE, worker(100)), (asleep(), worker(100))])[1] == Judged(100 * MS)


def test_a_starved_main_thread_is_not_a_sleeping_one() -> None:
    """Its wait is booked when it ends: 0.25 s without a core show as nothing, nothing, then 250 ms at once."""
    spin = Spin()
    judged(spin, [(asleep(), worker(100))])
    starving = Main(Part(0, 0), True, "")
    seen = judged(
        spin, [(starving, worker(100)), (starving, worker(100)), (Main(Part(50 * MS, 250 * MS), True, ""), worker(100))]
    )
    assert [one.spun_ns for one in seen] == [0, 0, 0]


def test_a_wait_that_ends_in_the_next_window_counts_in_this_one() -> None:
    spin = Spin()
    judged(spin, [(asleep(), worker(100)), (asleep(), worker(100))])
    torn = [(Main(Part(60 * MS, 0), True, ""), worker(100)), (Main(Part(60 * MS, 40 * MS), True, ""), worker(100))]
    assert judged(spin, torn)[0].spun_ns == 0


def test_a_worker_that_was_kept_from_a_core_may_still_owe_its_share() -> None:
    """The main thread sleeps where it cannot be seen in what: the share that the worker could not do yet is work."""
    spin = Spin()
    seen = judged(
        spin, [(AWAKE, worker(20, 80)), (asleep("unclear"), worker(80, 20)), (asleep("unclear"), worker(100))]
    )
    assert seen[1].work_ns == 80 * MS
    assert spin.spins
    assert seen[2].spun_ns >= 80 * MS


def test_a_spinner_on_a_crowded_machine_is_one_too() -> None:
    """It gets 30 ms of each window. The main thread sleeps elsewhere, so that nothing is owed."""
    spin = Spin()
    seen = judged(spin, [(AWAKE, worker(30, 70)), *[(asleep(), worker(30, 70))] * 3])
    assert spin.spins
    assert sum(one.work_ns for one in seen[1:]) <= BOOKED_NS


def test_what_the_kernel_books_late_is_not_lost_as_spinning() -> None:
    """Both work all the time; their times are booked at ticks of 10 ms, which fall differently."""
    spin = Spin()
    judged(spin, [(asleep(), worker(100)), (asleep(), worker(100))])
    generator = random.Random(3)
    late = [(0, 0)] + [(generator.randrange(11), generator.randrange(11)) for _ in range(200)]
    windows = []
    for (main_before, before), (main_after, after) in zip(late, late[1:], strict=False):
        main = Main(Part((100 + main_before - main_after) * MS, 0), True, "")
        windows.append((main, worker(100 + before - after)))
    seen = judged(spin, windows)
    assert sum(one.spun_ns for one in seen) <= BOOKED_NS
