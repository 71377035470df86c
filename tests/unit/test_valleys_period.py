"""The period of recurring valleys: with jitter, with missing ones, two at once; and none where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaptop.timeline.types import Floats
from gaptop.valleys.period import NEWEST, Found, periods, recurring

from .recurring_samples import samples

ERROR = 0.1
"""Of a start: half of a window of 200 ms."""

Make = Callable[[np.random.Generator], Floats]


def found(make: Make, seeds: int) -> list[list[Found]]:
    return [recurring(np.sort(make(np.random.default_rng(seed))), ERROR) for seed in range(seeds)]


def train(period: float, count: int, jitter: float) -> Make:
    """Each start strays from its place by itself."""
    return lambda chance: 5 + period * np.arange(count) + chance.normal(0, jitter, count)


def timer(period: float, count: int, jitter: float) -> Make:
    """A timer that is set anew each time: what one is late, all after it are."""
    return lambda chance: 5 + np.cumsum(period + chance.normal(0, jitter, count))


@pytest.mark.parametrize(
    ("make", "period"),
    [
        (train(1.5, 12, 0.03), 1.5),
        (train(1.5, 24, 0.05), 1.5),
        (timer(1.5, 24, 0.08), 1.5),
        (timer(1.5, 200, 0.08), 1.5),
        (train(30.0, 12, 0.5), 30.0),
        (lambda chance: train(1.5, 60, 0.05)(chance)[chance.random(60) > 0.2], 1.5),
        (lambda chance: np.concatenate([train(2.0, 40, 0.05)(chance), chance.uniform(5, 85, 20)]), 2.0),
    ],
    ids=["short", "jitter", "timer", "long timer", "slow", "a fifth missing", "a third at random"],
)
def test_a_period_is_found(make: Make, period: float) -> None:
    told = found(make, 40)
    right = [len(item) == 1 and abs(item[0].period_s - period) <= 0.04 * period for item in told]
    assert np.mean(right) >= 0.95


@pytest.mark.parametrize(
    "make",
    [
        lambda chance: np.cumsum(chance.exponential(1.0, 50)),
        lambda chance: np.cumsum(chance.exponential(1.0, 200)),
        # A valley lasts, and the next one cannot begin before it ends: no period, but no pure chance either.
        lambda chance: np.cumsum(0.5 + chance.exponential(0.5, 100)),
        lambda chance: np.cumsum(chance.uniform(0.5, 2.5, 50)),
        lambda chance: np.concatenate([np.cumsum(chance.exponential(1.0, 30)), 3600 + chance.uniform(0, 30, 30)]),
        # Two intervals of 8 to 16 s are together about 24 s long in whichever order they come.
        lambda chance: np.cumsum(chance.uniform(5, 11, 60) + chance.uniform(0.5, 5, 60)),
    ],
    ids=["Poisson", "long Poisson", "after a dead time", "uniform", "two bursts", "of similar length"],
)
def test_chance_has_no_period(make: Make) -> None:
    assert np.mean([item != [] for item in found(make, 100)]) <= 0.03


@pytest.mark.parametrize(("first", "second", "often"), [(1.5, 2.2, 0.8), (1.0, 3.7, 0.5)])
def test_of_two_interleaved_periods_the_shorter_is_found_and_mostly_both(
    first: float, second: float, often: float
) -> None:
    """Those of the longer one that come near to the shorter one's are taken for its own."""

    def both(chance: np.random.Generator) -> Floats:
        other = train(second, int(90 / second), 0.03)(chance) + chance.uniform(0, second)
        return np.concatenate([train(first, int(90 / first), 0.03)(chance), other])

    told = found(both, 40)
    assert np.mean([any(abs(one.period_s - first) < 0.03 * first for one in item) for item in told]) == 1.0
    assert np.mean([any(abs(one.period_s - second) < 0.03 * second for one in item) for item in told]) >= often
    for item in told:
        counted = sum(len(one.members) for one in item)
        assert len({index for one in item for index in one.members}) == counted


def test_three_valleys_that_repeat_are_no_shorter_period() -> None:
    starts = np.sort(np.concatenate([20.0 * np.arange(15) + offset for offset in (0.0, 7.7, 12.3)]))
    (one,) = recurring(starts, ERROR)
    assert (round(one.period_s, 3), one.spread_s, one.times) == (20.0, 0.0, 15)


def test_the_spread_is_not_cut_off_by_how_far_links_may_reach() -> None:
    (one,) = recurring(timer(1.5, 200, 0.1)(np.random.default_rng(3)), ERROR)
    assert one.spread_s == pytest.approx(0.1, abs=0.015)


def test_seven_are_too_few_and_eight_are_enough() -> None:
    exact = 1.5 * np.arange(8.0)
    assert recurring(exact[:7], ERROR) == []
    (one,) = recurring(exact, ERROR)
    assert one.period_s == pytest.approx(1.5)
    assert (one.spread_s, one.strength, len(one.members)) == (0.0, 1.0, 8)


def test_what_is_shorter_than_its_starts_are_known_is_no_period() -> None:
    assert recurring(0.5 * np.arange(40.0), ERROR) == []
    assert len(recurring(0.5 * np.arange(40.0), 0.02)) == 1


def test_a_pair_of_valleys_each_period_is_told_by_the_period() -> None:
    starts = np.sort(np.concatenate([3.0 * np.arange(20.0), 3.0 * np.arange(20.0) + 0.9]))
    assert {round(one.period_s, 3) for one in recurring(starts, ERROR)} == {3.0}


def test_the_sentence_has_the_period_its_spread_and_how_often_and_whose_it_is() -> None:
    starts = (5 + 1.5 * np.arange(24) + np.random.default_rng(1).normal(0, 0.07, 24)).tolist()
    true = float(np.std(np.diff(starts)))
    said = samples([0.4] * 24, start_s=starts, cause="host_starvation", detail="garbage collection")
    (one,) = periods(said)
    assert one.sentence == f"every {one.period_s:.3g} s (±{one.spread_s:.2g}), 24 times"
    assert one.period_s == pytest.approx(1.5, abs=0.03)
    assert one.spread_s == pytest.approx(true, abs=0.02)
    assert (one.devices, one.cause, one.detail, one.valleys) == (("a",), "host_starvation", "garbage collection", 24)
    assert one.strength > 0.9


def test_only_the_newest_are_looked_at() -> None:
    chance = np.random.default_rng(2).uniform(0, 1000, 800).tolist()
    later = (2000 + 1.5 * np.arange(NEWEST)).tolist()
    (one,) = periods(samples([0.4] * (800 + NEWEST), start_s=[*chance, *later]))
    assert (one.times, one.valleys) == (NEWEST, NEWEST)
