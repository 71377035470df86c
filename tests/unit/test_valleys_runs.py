"""Shallow dips: recurrent gaps from the first window on are told, noise of any kind is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from gaptop.valleys.runs import Run, RunFinder

from .valley_boxcar import stream, windows
from .valley_streams import analyse

W = 0.2
Made = Callable[[random.Random], list[float]]


def runs_of(values: Sequence[float], finder: RunFinder | None = None) -> list[Run]:
    finder = RunFinder() if finder is None else finder
    found = [finder.feed(W * index, W * (index + 1), value) for index, value in enumerate(values)]
    return [run for run in found if run is not None]


def recurrent(seed: int, every: float, length: float, seconds: float, window: float = W) -> list[tuple[float, float]]:
    """Gaps at random phase, one in each ``every`` windows, from the first one on; a window apart."""
    chance, found = random.Random(seed), []
    for index in range(int(seconds / window / every)):
        begin = (every * index + chance.uniform(0.0, every - 1.0) - length / window / 2) * window
        found.append((max(0.0, begin), max(0.0, begin) + length))
    return found


# Recurrent gaps.


@pytest.mark.parametrize("every", [4.0, 4.5, 5.0, 8.0])
@pytest.mark.parametrize("length", [0.02, 0.05, 0.09])
@pytest.mark.parametrize("window", [0.167, 0.2, 0.5])
def test_gaps_that_recur_from_the_first_window_on_are_told(every: float, length: float, window: float) -> None:
    gaps = recurrent(1, every, length, 60.0, window)
    steps = windows(gaps, window, int(60.0 / window), "nearest")
    finder, found = RunFinder(), []
    for start, end, value in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True):
        found.append(finder.feed(start, end, value))
    runs = [run for run in found if run is not None]
    assert finder.floor == 1.0
    late = [gap for gap in gaps if 30 * window < gap[0] < 60.0 - 10 * window]
    missed = [gap for gap in late if not any(run.start < gap[1] and run.end > gap[0] for run in runs)]
    assert len(late) > 5
    assert missed == []


@pytest.mark.parametrize("rounding", ["nearest", "down"])
def test_the_rounding_is_learnt_from_gaps_that_were_always_there(rounding: str) -> None:
    chance = random.Random(3)
    gaps = [(begin, begin + chance.gauss(0.05, 0.001)) for begin, _ in recurrent(3, 4.5, 0.05, 300.0)]
    found = analyse(stream(gaps, 300.0, W, rounding, "percent"))[1]
    (known,) = found.rounding
    assert (known.rounding, known.learnt) == (rounding, True)


def test_gaps_told_from_the_first_window_on_have_their_idle_seconds() -> None:
    gaps = recurrent(5, 5.0, 0.05, 120.0)
    found = analyse(stream(gaps, 120.0, W, "nearest", "nearest"))[1]
    (count,) = found.dip_counts
    assert 0.9 * len(gaps) <= count.dips <= len(gaps)
    assert count.idle_s == pytest.approx(0.05 * count.dips, rel=0.05)
    assert found.valleys == ()


# Noise.


def walk(chance: random.Random, step: Callable[[], float]) -> list[float]:
    """A random walk between 20 and 90 %, thrown back at both."""
    values, now = [], chance.uniform(0.3, 0.8)
    for _ in range(500):
        now += step()
        now = 1.8 - now if now > 0.9 else 0.4 - now if now < 0.2 else now
        values.append(now)
    return values


def uniform(level: float, points: float) -> Made:
    return lambda chance: [level + chance.uniform(-points, points) / 200 for _ in range(500)]


def uniform_walk(points: float) -> Made:
    return lambda chance: walk(chance, lambda: chance.uniform(-points, points) / 100)


def normal_walk(points: float) -> Made:
    return lambda chance: walk(chance, lambda: chance.gauss(0.0, points / 100))


NOISE: dict[str, Made] = {
    **{f"uniform over {points}": uniform(0.8, points) for points in (2, 4, 6, 10, 15, 20, 30)},
    "uniform over 10 at 50": uniform(0.5, 10),
    **{f"walk of {points}": uniform_walk(points) for points in (0.5, 1, 2, 3, 5, 10)},
    **{f"normal walk of {points}": normal_walk(points) for points in (0.5, 1, 2, 3, 5)},
    "normal of 1": lambda chance: [chance.gauss(0.8, 0.01) for _ in range(500)],
}


@pytest.mark.parametrize("made", NOISE.values(), ids=NOISE.keys())
@pytest.mark.parametrize("rounded", [True, False])
def test_noise_has_no_dips(made: Made, rounded: bool) -> None:
    for seed in range(20):
        values = made(random.Random(seed))
        assert runs_of([round(value, 2) for value in values] if rounded else values) == [], seed


@pytest.mark.parametrize("windows_each", [1, 2, 3, 5, 9, 10, 20])
@pytest.mark.parametrize(("high", "low"), [(1.0, 0.7), (0.8, 0.7), (1.0, 0.9), (0.9, 0.55)])
def test_two_levels_in_turn_have_no_dips(high: float, low: float, windows_each: int) -> None:
    values = [high if index // windows_each % 2 else low for index in range(400)]
    assert runs_of(values) == []
    assert runs_of(values[windows_each:]) == []


def test_what_sags_and_recovers_is_no_dip() -> None:
    steady = [0.83, 0.84, 0.84, 0.85] * 10
    assert runs_of([*steady, 0.82, 0.8, 0.77, 0.73, 0.77, 0.8, 0.82, *steady]) == []
    assert len(runs_of([*steady, 0.73, 0.8, 0.73, *steady])) == 1


# More than one or two low windows.


@pytest.mark.parametrize("count", range(1, 12))
def test_up_to_nine_low_windows_are_one_dip(count: int) -> None:
    found = runs_of([*[1.0] * 40, *[0.6, 0.7] * count, *[1.0] * 5][: 40 + count] + [1.0] * 5)
    assert [len(run.values) for run in found] == ([count] if count <= 9 else [])


def test_a_run_is_short_beside_what_it_is_compared_with() -> None:
    assert runs_of([*[1.0] * 10, *[0.6] * 3, *[1.0] * 10]) == []
    assert len(runs_of([*[1.0] * 10, *[0.6] * 2, *[1.0] * 10])) == 1


def test_several_gaps_in_windows_of_500_ms_are_one_dip_with_bounds_and_in_the_ledger_once() -> None:
    gaps = [(30.35, 30.65), (31.35, 31.65)]
    found = analyse(stream(gaps, 45.0, 0.5, "nearest", "nearest"))[1]
    assert found.valleys == ()
    (dip,) = found.dips
    assert (dip.start_s, dip.end_s) == pytest.approx((30.0, 32.0))
    assert dip.idle_s == pytest.approx(0.6, abs=dip.idle_error_s + 1e-6)
    low, high = dip.longest_gap_s
    assert low <= 0.3 <= high < 0.4
    assert not dip.confirmed
    rows = {row.cause: row.device_seconds for row in found.ledger}
    assert rows == {"busy": pytest.approx(44.4, abs=0.02), "spread_idle": pytest.approx(0.6, abs=0.02)}


# A level that changes.


def test_a_steady_lower_level_becomes_the_usual_one_and_the_old_one_comes_back() -> None:
    finder = RunFinder()
    assert runs_of([*[1.0] * 40, *[0.8] * 12], finder) == []
    assert finder.floor == 0.8
    assert len(runs_of([*[0.8] * 12, 0.6, *[0.8] * 3])) == 1
    assert len(runs_of([*[1.0] * 40, *[0.8] * 12, *[1.0] * 10, 0.8, *[1.0] * 3])) == 1


def test_a_long_valley_does_not_make_the_level_before_it_unknown() -> None:
    finder = RunFinder()
    runs_of([*[1.0] * 40, *[0.0] * 300, 1.0], finder)
    assert finder.floor == 1.0
    assert len(runs_of([*[1.0] * 40, *[0.0] * 300, 1.0, 0.8, 1.0])) == 1
