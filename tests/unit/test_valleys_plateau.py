"""Plateaus: distributed idle is one, however its readings scatter; a level that moves is not."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from gaptop.valleys.grid import CELL, cells
from gaptop.valleys.model import Plateau
from gaptop.valleys.plateau import LIKE, PlateauFinder

from .valley_boxcar import row, whole


def plateaus(values: Iterable[float], window: float = 0.2) -> list[Plateau]:
    """Of windows one after the other."""
    steps = row(list(values), window)
    finder = PlateauFinder("d")
    finder.window = window
    for index, value in enumerate(cells(steps, 0, int(steps.end[-1] / CELL)).tolist()):
        finder.feed(index, value)
    return finder.all()


def square_wave(period: float, window: float, count: int) -> list[float]:
    """What windows read of work for the first half of each period."""

    def done(t: float) -> float:
        return t // period * period / 2 + min(t % period, period / 2)

    return [whole((done(window * (i + 1)) - done(window * i)) / window, "nearest") for i in range(count)]


@pytest.mark.parametrize(
    ("period", "window"), [(0.04, 0.167), (0.02, 0.167), (0.104, 0.2), (0.1, 0.2), (0.0951, 0.2), (0.105, 0.5)]
)
def test_a_square_wave_that_beats_with_the_window_is_one_plateau(period: float, window: float) -> None:
    values = square_wave(period, window, 600)
    (found,) = plateaus(values, window)
    assert found.end_s - found.start_s > 0.99 * 600 * window
    assert found.busy_ratio == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("points", [1, 3, 6])
def test_readings_that_scatter_around_one_level_are_one_plateau(points: float) -> None:
    for seed in range(5):
        chance = random.Random(seed)
        (found,) = plateaus(0.8 + chance.uniform(-points, points) / 200 for _ in range(3000))
        assert found.busy_ratio == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("seconds", [4, 5, 13, 60])
@pytest.mark.parametrize("step", [0.05, 0.08, 0.1, 0.3])
def test_each_step_begins_a_plateau_of_its_own(seconds: int, step: float) -> None:
    each = 5 * seconds
    found = plateaus(0.6 + step * (index // each % 2) for index in range(6 * each))
    assert [one.busy_ratio for one in found] == pytest.approx([0.6, 0.6 + step] * 3, abs=0.002)
    for index, one in enumerate(found):
        assert one.start_s == pytest.approx(seconds * index, abs=0.2)
        assert one.end_s == pytest.approx(seconds * (index + 1), abs=0.2)


@pytest.mark.parametrize("each", [1, 2, 5, 9])
@pytest.mark.parametrize(("high", "low"), [(0.8, 0.4), (0.8, 0.7)])
def test_levels_in_quick_turn_are_none(high: float, low: float, each: int) -> None:
    assert plateaus(high if index // each % 2 else low for index in range(500)) == []


@pytest.mark.parametrize("points", [0.5, 1, 3])
def test_a_ramp_is_none(points: float) -> None:
    assert plateaus(0.2 + points / 100 * index for index in range(int(70 / points))) == []


def test_a_slow_ramp_is_many_and_none_of_them_covers_it() -> None:
    # Half an hour from 40 to 80 %: at any time it looks steady.
    found = plateaus(0.4 + 0.4 * index / 9000 for index in range(9000))
    assert len(found) > 8
    for one, after in zip(found, found[1:], strict=False):
        assert LIKE < after.busy_ratio - one.busy_ratio < 0.08


def test_a_reading_that_strays_does_not_part_a_plateau() -> None:
    chance = random.Random(1)
    (found,) = plateaus(0.5 if index % 70 == 69 else 0.8 + chance.uniform(-0.03, 0.03) for index in range(1000))
    assert found.end_s - found.start_s > 195


def test_a_stretch_shorter_than_ten_windows_is_none() -> None:
    assert plateaus([*[1.0] * 30, *[0.8] * 8, *[1.0] * 30]) == []
    (found,) = plateaus([*[1.0] * 30, *[0.8] * 12, *[1.0] * 30])
    assert (found.start_s, found.end_s) == pytest.approx((6.0, 8.4), abs=CELL)


def test_ten_windows_of_an_exporter_last_minutes() -> None:
    assert plateaus([0.8] * 9, 30.0) == []
    (found,) = plateaus([0.8, 0.81] * 20, 30.0)
    assert found.end_s == pytest.approx(1200.0)


def test_hours_of_a_plateau_cost_no_more_memory_than_its_newest_windows() -> None:
    finder = PlateauFinder("d")
    for cell in range(100_000):
        finder.feed(cell, 0.8 + 0.01 * (cell // 4 % 3))
    kept = [value for value in vars(finder).values() if hasattr(value, "__len__") and len(value) > 100]
    assert kept == []
    (found,) = finder.all()
    assert found.busy_ratio == pytest.approx(0.81, abs=1e-4)
    assert found.end_s == pytest.approx(5000.0)


def test_a_window_of_no_length_breaks_nothing() -> None:
    finder = PlateauFinder("d")
    finder.window = 0.0
    for cell in range(100):
        finder.feed(cell, random.Random(cell).random())
    assert all(one.end_s > one.start_s for one in finder.all())
