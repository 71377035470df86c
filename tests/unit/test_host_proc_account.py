"""How one thread's time is split, from what the kernel books and when it books it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop_collectors.host.thread_account import RUNNING, STOPPED, Account, Shares

LOOK = 80_000_000
MS = 1_000_000


def account(*, waits: bool = True, ticks: bool = True, state: str = RUNNING) -> Account:
    made = Account(waits=waits, ticks=ticks)
    made.begin(state)
    return made


def window(made: Account, *steps: tuple[int, int, str]) -> Shares:
    """The shares of a window of these looks (ran and waited in ms, state), of which the last belongs to the next."""
    for ran, waited, state in steps[:-1]:
        made.step(LOOK, ran * MS, waited * MS, state)
    made.end()
    ran, waited, state = steps[-1]
    made.step(LOOK, ran * MS, waited * MS, state)
    found = made.take()
    assert found is not None
    return found


def flat(found: Shares) -> dict[str, float]:
    return {"ran": found.ran, **({} if found.waited is None else {"waited": found.waited}), **found.blocked}


def test_a_wait_that_has_not_ended_is_a_wait_and_not_a_sleep() -> None:
    made = account()
    found = window(made, (0, 0, RUNNING), (0, 0, RUNNING), (0, 0, RUNNING), (0, 0, RUNNING))
    assert found == Shares(0.0, 1.0, {})


def test_what_is_booked_at_its_end_is_not_counted_twice() -> None:
    made = account()
    first = window(made, (20, 0, RUNNING), (0, 0, RUNNING), (0, 0, RUNNING), (0, 0, RUNNING))
    assert first.waited == pytest.approx(2 / 3)
    # 80 ms of this window are told already, and so are the 160 before; 60 more were waited before it ran again.
    made.step(LOOK, 20 * MS, (60 + 160 + 80 + 60) * MS, RUNNING)
    second = window(made, (80, 0, RUNNING), (80, 0, RUNNING))
    assert flat(second) == pytest.approx({"ran": 100 / 240, "waited": 140 / 240})


def test_a_wait_longer_than_the_time_since_the_last_look_reaches_back_into_the_window_before() -> None:
    made = account(state="futex")
    found = window(made, (0, 0, "futex"), (0, 0, "futex"), (0, 0, RUNNING), (20, 90, RUNNING))
    assert found.waited == pytest.approx(30 / 240), "60 of the 90 ms fit behind the window's end"
    assert found.blocked == {"futex": pytest.approx(210 / 240)}


def test_sleep_is_told_by_the_looks_around_it() -> None:
    found = window(account(state="pipe"), (0, 0, "pipe"), (0, 0, "disk"), (40, 0, RUNNING), (80, 0, RUNNING))
    assert found.ran == pytest.approx(40 / 240)
    assert found.blocked == {"pipe": pytest.approx(120 / 240), "disk": pytest.approx(80 / 240)}


def test_time_that_nobody_saw_is_left_out() -> None:
    found = window(account(), (10, 0, RUNNING), (10, 0, RUNNING), (10, 0, RUNNING), (10, 0, RUNNING))
    assert flat(found) == pytest.approx({"ran": 30 / 240, "waited": 0.0})


def test_a_stop_is_no_wait_for_anything() -> None:
    found = window(account(state=STOPPED), *[(0, 0, STOPPED)] * 4)
    assert found == Shares(0.0, 0.0, {})


def test_without_ticks_on_every_core_silence_proves_nothing() -> None:
    found = window(account(ticks=False), *[(0, 0, RUNNING)] * 4)
    assert found == Shares(0.0, 0.0, {})


def test_without_schedstat_no_wait_is_claimed() -> None:
    found = window(
        account(waits=False, state="poll"), (0, 0, "poll"), (30, 0, RUNNING), (30, 0, RUNNING), (0, 0, "poll")
    )
    assert found.waited is None
    assert found.ran == pytest.approx(60 / 240)
    assert found.blocked == {"poll": pytest.approx(130 / 240)}, "not the 50 ms in which it may have waited for a core"


STEP = st.tuples(
    st.integers(0, 200), st.integers(0, 400), st.sampled_from([RUNNING, STOPPED, "futex", "poll", "unknown"])
)


@given(st.lists(st.lists(STEP, min_size=1, max_size=5), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_shares_are_shares_whatever_is_booked(
    windows: list[list[tuple[int, int, str]]], waits: bool, ticks: bool
) -> None:
    made = account(waits=waits, ticks=ticks)
    for steps in windows:
        found = window(made, *steps, steps[0])
        parts = [found.ran, found.waited or 0.0, *found.blocked.values()]
        assert all(part >= 0 for part in parts)
        assert sum(parts) <= 1 + 1e-9
        assert not {RUNNING, STOPPED} & found.blocked.keys()


BLOCK = st.tuples(st.sampled_from(["run", "wait", "futex"]), st.integers(1, 600))


@given(st.lists(BLOCK, min_size=3, max_size=60))
def test_against_a_kernel_that_books_late(blocks: list[tuple[str, int]]) -> None:
    """A thread whose truth is known to the ms, seen through bookings at ticks (4 ms) and at the end of waits."""
    truth: list[str] = []
    for kind, length in blocks:
        truth += [kind] * length
    truth += ["futex"] * 700
    made = account(state=_state(truth[0]))
    step, size = 80, 3
    booked = _booked(truth)
    wanted = {"run": 0, "wait": 0, "futex": 0}
    found = {"run": 0.0, "wait": 0.0, "futex": 0.0}
    looks = 0
    for at in range(step, len(truth), step):
        ran, waited = (booked[at][i] - booked[at - step][i] for i in (0, 1))
        made.step(step * MS, ran * MS, waited * MS, _state(truth[at]))
        shares = made.take() if looks and looks % size == 0 else None
        if shares is not None:
            found["run"] += shares.ran * step * size
            found["wait"] += (shares.waited or 0.0) * step * size
            found["futex"] += shares.blocked.get("futex", 0.0) * step * size
        looks += 1
        if looks % size == 0:
            made.end()
    told = (looks - 1) // size * size * step
    for kind in truth[:told]:
        wanted[kind] += 1
    spans = sum(1 for kind, _ in blocks if kind == "wait") + 1
    assert found["run"] == pytest.approx(wanted["run"], abs=step + 4)
    assert found["wait"] >= wanted["wait"] - spans * step - 4, "at most one look of each wait is lost"
    assert found["wait"] <= wanted["wait"] + step + 4
    assert sum(found.values()) <= told + 1e-6


def _state(kind: str) -> str:
    return "futex" if kind == "futex" else RUNNING


def _booked(truth: list[str]) -> list[tuple[int, int]]:
    """What the kernel shows at each ms."""
    out, ran, running, waited, waiting = [], 0, 0, 0, 0
    for at, kind in enumerate(truth):
        if at and truth[at - 1] != kind:
            ran, running = ran + running, 0
            waited, waiting = waited + waiting, 0
        if at % 4 == 0:
            ran, running = ran + running, 0
        out.append((ran, waited))
        running += kind == "run"
        waiting += kind == "wait"
    return out
