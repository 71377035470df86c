"""What our own calls to the driver cost: when they are made less often, when as before, and what is said."""

from __future__ import annotations

import pytest

from gaptop_collectors.devices.nvml_cost import BUDGET, MOST, OVER_S, Change, OwnCost, sentence


class Session:
    """Rounds of calls a quarter of a second apart (stretched as asked), each taking ``call_s``."""

    def __init__(self) -> None:
        self.cost = OwnCost()
        self.now = 1000.0
        self.call_s = 0.0005
        self.changes: list[tuple[float, Change]] = []

    def run(self, seconds: float) -> list[int]:
        """The stretches that were changed to."""
        before, end = len(self.changes), self.now + seconds
        due = self.now
        while self.now < end:
            if self.now >= due:
                self.cost.add(self.call_s, self.call_s)
                due = self.now + 0.25 * self.cost.stretch
            change = self.cost.judge(self.now)
            if change:
                self.changes.append((self.now, change))
            self.now += 0.25
        return [change.stretch for _, change in self.changes[before:]]


def test_cheap_calls_change_nothing() -> None:
    session = Session()
    assert session.run(120) == []
    assert session.cost.share(session.now) == pytest.approx(0.002, rel=0.1)


def test_a_slow_call_doubles_the_distance_at_once_up_to_eightfold_and_only_once_each() -> None:
    session = Session()
    session.run(20)
    session.call_s = 0.03
    assert session.run(30) == [2, 4, 8]
    assert session.changes[0][1].slowest == pytest.approx(0.03)
    assert session.run(60) == []  # it goes on being slow: no more to say


def test_more_than_the_budget_doubles_the_distance_until_it_is_kept() -> None:
    """Calls of 12 ms each quarter of a second are 4.8 %: half as many are 2.4 %, a quarter 1.2 %."""
    session = Session()
    session.call_s = 0.012
    assert session.run(60) == [2, 4]
    assert all(change.share and change.share > BUDGET and not change.slowest for _, change in session.changes)
    assert session.run(300) == []  # 1.2 %: within the budget, but twice as much would not be


def test_recovery_waits_until_every_group_was_asked_twice_and_is_told() -> None:
    session = Session()
    session.run(20)
    session.call_s = 0.03
    session.run(0.5)
    session.call_s = 0.0005
    began = session.now
    assert session.run(300)[-1] == 1
    ups = [change.more for _, change in session.changes]
    assert ups == sorted(ups, reverse=True)
    first_down = next(moment for moment, change in session.changes if not change.more)
    assert first_down - began >= OVER_S * 2


def test_a_rare_slow_call_does_not_make_it_go_up_and_down_for_ever() -> None:
    """One group, asked each 2 s by its own schedule (stretched), takes 25 ms each time."""
    cost = OwnCost()
    now, due, stretches = 0.0, 0.0, []
    while now < 600:
        if now >= due:
            cost.add(0.025, 0.025)
            due = now + 2.0 * cost.stretch
        change = cost.judge(now)
        if change:
            stretches.append(change.stretch)
        now += 0.25
    assert stretches == [2, 4, 8]


def test_what_was_slow_before_the_start_does_not_count() -> None:
    cost = OwnCost()
    cost.add(1.5, 1.5)  # a GPU that had to wake up
    cost.start()
    assert cost.judge(1.0) is None
    assert cost.seconds == 1.5


def test_waiting_for_a_core_is_no_cost_of_the_driver() -> None:
    """On a crowded host each round of calls takes 40 ms, of which our thread waited 39 for its turn."""
    cost = OwnCost()
    for k in range(400):
        cost.add(0.04, 0.001)
        assert cost.judge(k * 0.25, waited=0.039) is None
    assert cost.share(100.0) == pytest.approx(0.004, rel=0.1)
    assert cost.seconds == pytest.approx(400 * 0.04)  # which is what they took, all the same


@pytest.mark.parametrize("stretch", [1, 2, 4, MOST])
@pytest.mark.parametrize("slowest", [0.0, 0.034])
def test_each_change_is_said_with_its_numbers(stretch: int, slowest: float) -> None:
    text = sentence(Change(stretch, stretch > 1, 0.031, slowest))
    assert ("34 ms" in text) == bool(slowest)
    assert ("3.1 %" in text) == (not slowest)
    assert (f"{stretch} times less often" in text) == (stretch > 1)
    assert "utilisation" in text
