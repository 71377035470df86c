"""A driver that gives one GPU's utilisation for all is found out; ranks that work in step are not accused."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gaptop_collectors.devices.nvml_same import ENOUGH, SameReadings
from gaptop_collectors.devices.nvml_utilization import Row

W = 200_000_000


def fed(*series: Sequence[float], phase: int = 0, chunk: int = 2) -> SameReadings:
    same = SameReadings()
    for start in range(0, max(map(len, series)), chunk):
        same.add(
            {
                f"GPU-{number}": [
                    Row((start + index) * W + number * phase, value, None)
                    for index, value in enumerate(values[start : start + chunk])
                ]
                for number, values in enumerate(series)
            }
        )
    return same


def varied(count: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.randrange(1, 100) / 100 for _ in range(count)]


def test_the_same_varied_values_on_all_gpus_are_found_out() -> None:
    values = varied(60, 1)
    assert fed(values, values, values, phase=W // 8).found
    assert not fed(values[: ENOUGH - 1], values[: ENOUGH - 1]).found


def test_one_gpu_that_differs_clears_the_driver() -> None:
    values = varied(60, 1)
    assert not fed(values, values, varied(60, 2)).found


def test_a_single_difference_begins_the_count_anew() -> None:
    values = varied(60, 1)
    other = list(values)
    other[45] = (other[45] + 0.5) % 1
    same = fed(values, other)
    assert not same.found
    assert 0 < same.count <= 14


def test_idle_full_and_steady_gpus_agree_by_themselves() -> None:
    for steady in (0.0, 1.0, 0.97):
        assert not fed([steady] * 500, [steady] * 500).found
    assert not fed([0.0, 1.0] * 100, [0.0, 1.0] * 100).found


def test_one_gpu_alone_proves_nothing() -> None:
    assert not fed(varied(200, 1)).found


def test_a_missing_window_is_skipped_on_the_others() -> None:
    values = varied(80, 3)
    same = SameReadings()
    for index, value in enumerate(values):
        row = Row(index * W, value, None)
        same.add({"GPU-0": [row], "GPU-1": [] if index == 10 else [row]})
    assert same.found


def test_gpus_that_come_and_go_begin_anew() -> None:
    values = varied(ENOUGH + 5, 1)
    same = fed(values, values)
    assert same.found
    same.add({"GPU-0": [], "GPU-1": [], "GPU-2": []})
    assert not same.found
