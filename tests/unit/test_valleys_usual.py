"""What is usual is nothing that was reached once: one false rate makes no valley of steady load and hides none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.valleys.progress import Interval, Stall, StallDetector
from gaptop.valleys.usual import Usual

RATE = 300.0


def scattered(rng: random.Random, count: int) -> list[float]:
    """Rates of steady load: 20 % scatter, as steady servers show it."""
    return [RATE * rng.uniform(0.8, 1.2) for _ in range(count)]


def fed(detector: StallDetector, rates: list[float], every: float, start: float = 0.0) -> list[Stall]:
    found = []
    for index, rate in enumerate(rates):
        ended = detector.feed(Interval(start + index * every, start + (index + 1) * every, rate, 4.0, 75.0))
        found += [ended] if ended is not None else []
    return found


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    every=st.sampled_from([0.125, 0.5, 1.0]),
    times=st.floats(2.0, 100.0),
    at=st.integers(0, 60),
    steady=st.integers(3, 60),
    still=st.integers(2, 20),
)
def test_one_false_rate_makes_no_valley_and_hides_none(
    seed: int, every: float, times: float, at: int, steady: int, still: int
) -> None:
    rng = random.Random(seed)
    steady = max(steady, 3 * round(0.5 / min(every, 0.5)))  # two spans of 0.4 s or more besides the false one
    rates = scattered(rng, steady)
    rates[at % steady] *= times
    detector = StallDetector(silences=False)
    assert fed(detector, rates, every) == []
    assert detector.open is None
    begun, seconds = steady * every, max(still * every, 1.0)
    stopped = round(seconds / every)
    found = fed(detector, [0.0] * stopped + [RATE] * 8, every, begun)
    assert len(found) == 1
    (stall,) = found
    assert stall.start == pytest.approx(begun)
    assert stall.end == pytest.approx(begun + stopped * every)
    assert stall.expected - stall.units == pytest.approx(RATE * stopped * every, rel=0.3)


@pytest.mark.parametrize("first", [[8000.0, 300.0], [300.0, 8000.0]])
def test_a_standstill_is_found_after_one_false_rate_and_one_true_one(first: list[float]) -> None:
    detector = StallDetector(silences=False)
    (stall,) = fed(detector, [*first, 0.0, 0.0, 300.0, 300.0], 0.5)
    assert (stall.start, stall.end) == (1.0, 2.0)
    assert stall.level == 300.0


def test_a_rate_reached_twice_is_usual() -> None:
    usual = Usual()
    levels = []
    for index, rate in enumerate([300.0, 800.0, 810.0]):
        usual.add(index * 0.5, index * 0.5 + 0.5, rate, None, 4.0)
        levels.append(usual.level)
    assert levels == [None, 300.0, 810.0]


@pytest.mark.parametrize(("back", "ends"), [(1.0, True), (0.75, True), (0.6, False)])
def test_a_server_that_is_back_at_what_it_did_half_of_the_time_is_back(back: float, ends: bool) -> None:
    """It was a third faster for a while before it stood still; steady servers scatter by a fifth."""
    detector = StallDetector(silences=False)
    assert fed(detector, [RATE] * 8 + [1.35 * RATE] * 6 + [0.0] * 4, 0.5) == []
    assert detector.open is not None
    found = fed(detector, [back * RATE] * 4, 0.5, start=9.0)
    assert (len(found) == 1) is ends
