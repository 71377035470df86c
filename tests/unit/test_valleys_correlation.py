"""Spearman's rank correlation: values that are known elsewhere, and how often its interval is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gaptop.valleys.correlation import independent, interval, partial, ranks, spearman

IQ = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
HOURS = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        # The textbook example, -29/165.
        (IQ, HOURS, -0.17575757575757578),
        # With ties; as scipy 1.17.1 has it.
        ([1, 2, 2, 3, 3, 3, 4, 8], [2, 1, 4, 4, 3, 5, 5, 5], 0.7911392405063293),
        ([1, 2, 3, 4], [10, 20, 30, 1e9], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
    ],
)
def test_known_values(first: list[float], second: list[float], wanted: float) -> None:
    assert spearman(first, second) == pytest.approx(wanted)


def test_equal_values_share_their_rank() -> None:
    assert ranks([5, 1, 5, 7]).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_what_does_not_vary_correlates_with_nothing() -> None:
    assert spearman([1, 2, 3], [8, 8, 8]) is None


def test_the_interval_is_that_of_bonett_and_wright() -> None:
    # rho 0.6, n 28: z = 0.6931, sqrt(1.18 / 25) = 0.2173, 95 % reach 0.4258.
    assert interval(0.6, 28, 0.95) == pytest.approx((math.tanh(0.6931 - 0.4258), math.tanh(0.6931 + 0.4258)), abs=1e-3)
    assert interval(0.9, 4, 0.95) == (-1.0, 1.0)
    low, high = interval(1.0, 8, 0.95)
    assert 0.5 < low < high < 1.0


@pytest.mark.parametrize("count", [8, 12, 24, 60])
def test_without_a_connection_the_interval_leaves_out_zero_as_rarely_as_it_says(count: int) -> None:
    chance = np.random.default_rng(7)
    wrong = 0
    for _ in range(2000):
        first, second = chance.normal(size=(2, count)).tolist()
        low, high = interval(spearman(first, second) or 0.0, independent(first, second), 0.95)
        wrong += low > 0.0 or high < 0.0
    assert wrong / 2000 <= 0.065


def test_series_that_both_drift_are_not_taken_for_so_many_proofs() -> None:
    chance = np.random.default_rng(7)
    wrong = naive = 0
    for _ in range(300):
        first, second = np.cumsum(chance.normal(size=(2, 60)), axis=1).tolist()
        rho = spearman(first, second) or 0.0
        low, high = interval(rho, independent(first, second), 0.95)
        wrong += low > 0.0 or high < 0.0
        low, high = interval(rho, 60, 0.95)
        naive += low > 0.0 or high < 0.0
    assert naive / 300 > 0.5
    assert wrong / 300 < 0.2


def test_independent_pairs_are_never_more_than_there_are() -> None:
    swing = [float(index % 2) for index in range(20)]
    assert independent(swing, list(range(20))) == 20.0
    assert independent(list(range(40)), list(range(40))) < 10


def test_a_correlation_that_a_third_one_makes_is_gone_at_equal_values_of_it() -> None:
    chance = np.random.default_rng(2)
    third = chance.normal(size=400)
    first, second = third + chance.normal(0, 0.5, 400), third + chance.normal(0, 0.5, 400)
    assert (spearman(first.tolist(), second.tolist()) or 0.0) > 0.7
    assert partial(first.tolist(), second.tolist(), third.tolist()) == pytest.approx(0.0, abs=0.12)
    assert (partial((first + second).tolist(), second.tolist(), third.tolist()) or 0.0) > 0.5
    # What does not vary, or is the same, leaves the correlation as it is, or nothing.
    assert partial([1, 2, 3], [1, 3, 2], [5, 5, 5]) == spearman([1, 2, 3], [1, 3, 2])
    assert partial([1, 2, 3], [1, 3, 2], [1, 2, 3]) is None
