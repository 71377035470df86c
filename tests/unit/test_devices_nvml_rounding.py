"""Whether a driver rounds its utilisation to the nearest whole per cent or down, told by comparing it with GPM."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from gaptop_collectors.devices.nvml_rounding import RoundingLearner

W = 200_000_000


def learn(
    how: str,
    seconds: float,
    levels: Sequence[float] = (60.0,),
    spread: float = 6.0,
    bias: float = 0.0,
    noise: float = 0.0,
) -> RoundingLearner:
    """A load whose level wanders slowly, or jumps each four seconds. GPM's intervals lie across the windows."""
    dice = random.Random(11)
    learner = RoundingLearner()

    def truth(start_ns: int, end_ns: int) -> float:
        middle = (start_ns + end_ns) / 2e9
        level = levels[int(middle / 4) % len(levels)]
        return level + spread * math.sin(middle / 7) + spread / 3 * math.sin(middle / 1.3)

    events: list[tuple[int, str, int, int]] = []
    for k in range(int(seconds / 0.2)):
        events.append((10**9 + (k + 1) * W + 30_000_000, "window", 10**9 + k * W, 10**9 + (k + 1) * W))
        start = 10**9 + k * W + 83_000_000
        events.append((start + W, "gpm", start, start + W))
    for _, kind, start, end in sorted(events):
        value = truth(start, end)
        if kind == "window":
            percent = math.floor(value + 0.5) if how == "nearest" else math.floor(value)
            learner.window(start, end, percent)
        else:
            learner.gpm(start, end, (value + bias + dice.gauss(0, noise)) / 100)
    return learner


@pytest.mark.parametrize("how", ["nearest", "down"])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_rounding_is_told_from_a_minute_of_partial_windows(how: str, noise: float) -> None:
    assert learn(how, 120, noise=noise).told == how


@pytest.mark.parametrize("how", ["nearest", "down"])
def test_a_few_windows_tell_nothing(how: str) -> None:
    assert learn(how, 10).told == ""


@pytest.mark.parametrize("how", ["nearest", "down"])
@pytest.mark.parametrize("level", [50.4, 50.6, 0.4, 99.7])
def test_a_constant_load_tells_nothing(how: str, level: float) -> None:
    """50.4 % is 50 by both ways: its mean difference looks like rounding down."""
    assert learn(how, 300, levels=[level], spread=0.0).told == ""
    assert learn(how, 300, levels=[level], spread=0.0, noise=1.0).told == ""


@pytest.mark.parametrize("how", ["nearest", "down"])
@pytest.mark.parametrize(
    ("levels", "noise"),
    [
        ([20.4, 40.4, 60.4, 80.4], 0.7),
        ([50.4] * 12 + [20.1, 30.7, 44.2, 61.9, 70.3, 83.6, 77.7], 0.7),
        ([20.4 + 5 * k for k in range(12)], 0.0),
    ],
)
def test_constant_loads_tell_nothing_either(how: str, levels: list[float], noise: float) -> None:
    assert learn(how, 300, levels=levels, spread=0.0, noise=noise).told == ""


@pytest.mark.parametrize("bias", [-2.0, -0.25, 1.0])
def test_a_gpm_that_differs_for_its_own_reason_tells_nothing(bias: float) -> None:
    assert learn("nearest", 300, bias=bias).told == ""


def test_full_and_idle_windows_are_not_counted() -> None:
    learner = RoundingLearner()
    for k in range(1000):
        learner.gpm(k * W, (k + 1) * W, 1.0 if k % 2 else 0.0)
        learner.window(k * W, (k + 1) * W, 100 if k % 2 else 0)
    assert learner.told == ""


def test_what_was_told_before_stays() -> None:
    learner = RoundingLearner("down")
    assert learner.told == "down"
    learner.window(0, W, 50)
    assert learner.told == "down"
