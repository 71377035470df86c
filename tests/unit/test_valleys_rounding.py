"""How a driver rounds, told from its own gaps: never the wrong way, and nothing where the gaps cannot tell."""

from __future__ import annotations

import random

import pytest

from gaptop.valleys.learnt import GapRounding

from .valley_boxcar import stream, whole
from .valley_streams import analyse


def told(rounding: str, milliseconds: float, scatter: float, *, window: float = 0.2, seed: int = 1) -> str:
    """The word after so many gaps at random phases; each length is drawn from a normal distribution."""
    chance, finder = random.Random(seed), GapRounding()
    for _ in range(900):
        length = max(0.002, chance.gauss(milliseconds, scatter) / 1000)
        phase = chance.random() * window
        parts = [min(length, window - phase), length - min(length, window - phase)]
        readings = [whole(1 - part / window, rounding) for part in parts if part > 0.0]
        finder.add([value for value in readings if value < 1.0])
    return finder.word


@pytest.mark.parametrize("rounding", ["nearest", "down"])
@pytest.mark.parametrize(("milliseconds", "scatter"), [(37, 1.0), (50, 1.0), (50, 2.0), (100, 1.0), (120, 2.0)])
def test_gaps_of_about_one_length_tell_how_the_driver_rounds(
    rounding: str, milliseconds: float, scatter: float
) -> None:
    assert {told(rounding, milliseconds, scatter, seed=seed) for seed in range(6)} == {rounding}


@pytest.mark.parametrize("rounding", ["nearest", "down"])
@pytest.mark.parametrize("window", [0.167, 0.5])
def test_at_other_windows_too(rounding: str, window: float) -> None:
    assert told(rounding, 200 * window, 7.5 * window, window=window) == rounding


@pytest.mark.parametrize("rounding", ["nearest", "down"])
@pytest.mark.parametrize("milliseconds", [20, 20.6, 37, 50.3, 99.1, 100, 101.9])
@pytest.mark.parametrize("scatter", [0.0, 0.05, 0.2, 0.4, 3.0, 6.0, 25.0])
def test_gaps_that_cannot_tell_never_tell_the_wrong_way(rounding: str, milliseconds: float, scatter: float) -> None:
    assert {told(rounding, milliseconds, scatter, seed=seed) for seed in range(4)} <= {"", rounding}


def test_one_length_that_never_varies_is_ambiguous_and_leaves_it_open() -> None:
    # 10.3 % of a window rounded to the nearest and 9.8 % (in two: 9.3 %) rounded down read alike.
    assert told("nearest", 20.6, 0.0) == ""


def test_readings_with_fractions_of_a_per_cent_are_not_learnt_from() -> None:
    finder = GapRounding()
    for index in range(200):
        finder.add([0.5 + index / 3000])
        finder.add([0.75, 0.75 + index / 3000])
    assert finder.word == ""


@pytest.mark.parametrize("rounding", ["nearest", "down"])
def test_what_was_learnt_counts_for_valleys_and_dips_from_then_on(rounding: str) -> None:
    chance = random.Random(3)
    begins = [6 + 1.3 * index + 0.2 * chance.random() for index in range(330)]
    gaps = [(begin, begin + chance.gauss(0.05, 0.001)) for begin in begins]
    found = analyse(stream(gaps, 440.0, 0.2, rounding, "percent"))[1]
    (known,) = found.rounding
    assert (known.rounding, known.learnt) == (rounding, True)
    first, last = found.dips[0], found.dips[-1]
    assert first.idle_error_s > last.idle_error_s
    late = found.dips[-40:]
    truth = sum(end - start for start, end in gaps[-40:])
    assert sum(item.idle_s for item in late) == pytest.approx(truth, abs=40 * 0.0003)


def test_a_rounding_that_the_source_states_is_taken_as_it_is() -> None:
    (known,) = analyse(stream([(9.0, 9.1)], 14.0, 0.2, "down", "nearest"))[1].rounding
    assert (known.rounding, known.learnt) == ("nearest", False)
