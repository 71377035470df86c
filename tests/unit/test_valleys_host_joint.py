"""Stacks and run states joined: what must have been at once, what may have, and what only one of the two saw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.timeline.types import Span, Steps
from gaptop.valleys.host_held import held
from gaptop.valleys.joint import RUNNING, Joint, join

WINDOW = 0.25


def windows(*values: float, first: float = 0.0, length: float = WINDOW) -> Steps:
    starts = (first + length * np.arange(len(values))).astype(np.float64)
    return Steps(starts, starts + length, np.array(values, np.float64))


def spans(*parts: tuple[float, float, str]) -> list[Span]:
    return [Span(start, end, activity, 1) for start, end, activity in parts]


def joined(parts: list[Span], start: float = 0.0, end: float = 2.0, grain: float = 0.0, **states: Steps) -> Joint:
    return join(parts, states, start, end, grain)


def test_phases_longer_than_a_window_are_told_apart_exactly() -> None:
    # One second of work on a core, one of work that sleeps on a lock: the marginal shares alone would say 0.
    found = joined(
        spans((0.0, 1.0, "schedule"), (1.0, 2.0, "idle")),
        running=windows(*[1.0] * 4, *[0.0] * 4),
        futex=windows(*[0.0] * 4, *[1.0] * 4),
    )
    assert found.least(["schedule"], [RUNNING]) == pytest.approx(1.0)
    assert found.least(["idle"], ["futex"]) == pytest.approx(1.0)
    assert found.most(["schedule"], ["futex"]) == pytest.approx(0.0)
    assert not found.stateless
    assert not found.stackless
    assert found.unseen == pytest.approx(0.0)


def test_inside_a_window_only_bounds_are_known() -> None:
    found = joined(
        spans((0.0, 0.15, "schedule"), (0.15, 0.25, "idle")),
        end=0.25,
        running=windows(0.5),
        futex=windows(0.5),
    )
    # 0.15 s of work and 0.125 s asleep in 0.25 s: 0.025 s at least were both, 0.125 s at most.
    assert found.least(["schedule"], ["futex"]) == pytest.approx(0.025)
    assert found.most(["schedule"], ["futex"]) == pytest.approx(0.125)
    assert found.seconds(["schedule"], ["futex"]) == pytest.approx(0.075)


def test_an_idle_wait_explains_a_lock_before_work_does() -> None:
    # 60 % work and 40 % queue wait in steps of 10 ms, 40 % asleep on a futex: nothing says that work ever slept.
    steps = [(i / 100, i / 100 + 0.006, "schedule") for i in range(200)]
    steps += [(i / 100 + 0.006, (i + 1) / 100, "idle") for i in range(200)]
    found = joined(spans(*sorted(steps)), running=windows(*[0.6] * 8), futex=windows(*[0.4] * 8))
    assert found.least(["schedule"], ["futex"]) == pytest.approx(0.0, abs=1e-6)
    assert found.seconds(["schedule"], ["futex"]) == pytest.approx(0.48)


def test_what_one_source_did_not_see_is_kept_apart() -> None:
    # Stacks over [0, 1.5), run states over [0.5, 2.0): one second of both.
    found = joined(
        spans((0.0, 1.5, "schedule")),
        end=2.5,
        running=windows(*[0.25] * 6, first=0.5),
        poll=windows(*[0.75] * 6, first=0.5),
    )
    assert found.seen == pytest.approx(1.0)
    assert found.stateless == {"schedule": pytest.approx(0.5)}
    assert found.stackless == {RUNNING: pytest.approx(0.125), "poll": pytest.approx(0.375)}
    assert found.unseen == pytest.approx(0.5)
    assert found.least(["schedule"], ["poll"]) == pytest.approx(0.75)


def test_a_window_over_the_stretchs_edge_proves_no_more_than_its_part_inside() -> None:
    # Half of the window lies before the stretch: the sleep may all have been there.
    found = joined(spans((0.125, 0.25, "gc")), 0.125, 0.25, running=windows(0.5), futex=windows(0.5))
    assert found.least(["gc"], ["futex"]) == pytest.approx(0.0)
    assert found.most(["gc"], ["futex"]) == pytest.approx(0.125)


def test_nothing_seen_is_nothing_said() -> None:
    found = joined([], running=windows())
    assert not found.slices
    assert found.unseen == pytest.approx(2.0)


def test_time_that_no_state_accounts_for_is_untold() -> None:
    found = joined(spans((0.0, 2.0, "gc")), running=windows(*[0.25] * 8))
    assert found.least(["gc"], ["untold"]) == pytest.approx(1.5)


def test_slices_are_as_long_as_the_grain_so_that_few_samples_prove_nothing() -> None:
    # Each window holds one sample of a thread that works for 10 ms in 20: now the one, now the other activity.
    parts = spans(*((i * WINDOW, (i + 1) * WINDOW, ("schedule", "idle")[i % 2]) for i in range(8)))
    half = windows(*[0.5] * 8)
    assert joined(parts, running=half, futex=half).least(["schedule"], ["futex"]) == pytest.approx(0.5)
    assert joined(parts, running=half, futex=half, grain=1.0).least(["schedule"], ["futex"]) == pytest.approx(0.0)


ACTIVITIES, STATES = ("schedule", "idle", "gc"), (RUNNING, "futex", "poll")


@given(st.lists(st.tuples(st.sampled_from(ACTIVITIES), st.sampled_from(STATES), st.integers(1, 60)), max_size=30),
       st.sampled_from([0.0, 0.3, 1.0]), st.floats(0.0, 0.5), st.floats(0.5, 3.0))  # fmt: skip
def test_the_truth_lies_between_the_bounds(
    moments: list[tuple[str, str, int]], grain: float, start: float, end: float
) -> None:
    """Any history of (activity, state) for so many 10 ms: what is told from spans and windows never contradicts it."""
    ticks = [(activity, state) for activity, state, count in moments for _ in range(count)]
    ticks = ticks[: len(ticks) // 25 * 25]
    each = [ticks[i : i + 25] for i in range(0, len(ticks), 25)]
    shares = {name: windows(*(sum(was == name for _, was in part) / 25 for part in each)) for name in STATES}
    found = joined(
        spans(*((i / 100, (i + 1) / 100, did) for i, (did, _) in enumerate(ticks))), start, end, grain, **shares
    )
    for activity in ACTIVITIES:
        for state in STATES:
            truth = sum(
                max(0.0, min((i + 1) / 100, end) - max(i / 100, start))
                for i, pair in enumerate(ticks)
                if pair == (activity, state)
            )
            assert found.least([activity], [state]) <= truth + 1e-6
            assert found.most([activity], [state]) >= truth - 1e-6
    told = found.seen + sum(found.stateless.values()) + sum(found.stackless.values()) + found.unseen
    assert told == pytest.approx(end - start, abs=1e-6)


def test_sleep_that_may_all_be_the_lock_is_not_held_against_the_work() -> None:
    # Of each 0.1 s 0.07 s in work and 0.03 s in a sync; 0.7 asleep on the lock and 0.25 on the device, whenever.
    spans: list[Span] = []
    for index in range(40):
        spans += [
            Span(index / 10, index / 10 + 0.07, "schedule", 1),
            Span(index / 10 + 0.07, (index + 1) / 10, "device_sync", 2),
        ]
    windows = np.arange(0.0, 4.0, 0.25)

    def share(value: float) -> Steps:
        return Steps(windows, windows + 0.25, np.full(len(windows), value))

    joint = join(spans, {RUNNING: share(0.05), "futex": share(0.7), "poll": share(0.25)}, 0.0, 4.0, 1.0)
    found = held(joint)
    assert found.dozed == pytest.approx(0.0, abs=1e-6)
    assert found.lock == pytest.approx(0.4)
