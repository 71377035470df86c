"""How polled readings of a real card become the windows that its driver held."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from gaptop_collectors.devices.nvml_ring import Entry, period
from tests.devices_truth import boxcar
from tests.devices_truth.recording import Row, changes, kernels, period_of, rebuild, rows, same_hour

PERIODS = {"update_freq_v100": 0.167, "5050_rtx3090": 0.2, "transient_rtx3090": 0.2, "transient_rtx4090": 0.2}


def polls(values: list[int], window: float, seed: int, hiccup: float = 0.0) -> list[Row]:
    """nvidia-smi on a card with these windows: asked each 7-13 ms, now and then late."""
    chance = random.Random(seed)
    times, t = [], 0.02 + window
    while t < 0.01 + window * (len(values) + 1):
        times.append(t)
        t += hiccup if chance.random() < 0.003 else chance.uniform(0.007, 0.013)
    read = boxcar.polled(values, window, times)
    return [Row(t, value, 2.0 * value) for t, value in zip(times, read, strict=True) if value is not None]


@pytest.mark.parametrize("window", [0.167, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_the_driver_s_windows_come_back_also_where_readings_stay_equal(window: float, seed: int) -> None:
    chance = random.Random(seed)
    values = [0, 0, 2, 0, *(chance.choice([100, 100, 100, 0, 37, 51]) for _ in range(200)), 100, 100, 100, 5]
    built = rebuild(polls(values, window, seed, hiccup=0.045))
    assert built.period == pytest.approx(window, rel=0.002)
    assert [one.percent for one in built.windows] == values


def test_a_reading_that_stays_for_two_seconds_is_ten_windows() -> None:
    values = [0] * 3 + [100] * 10 + [0] * 5
    built = rebuild(polls(values, 0.2, 1), period=0.2)
    assert [one.percent for one in built.windows] == values
    assert all(0.18 < after.t - before.t < 0.22 for before, after in pairwise(built.windows))


def test_power_is_what_was_read_last_when_a_window_was_out() -> None:
    readings = [Row(0.0, 0, 30.0), Row(0.15, 0, 40.0), Row(0.2, 100, 50.0), Row(0.3, 100, 300.0), Row(0.4, 0, 310.0)]
    assert [one.watts for one in rebuild(readings, period=0.2).windows][-2:] == [50.0, 310.0]


def test_changes_on_no_grid_have_no_period() -> None:
    chance = random.Random(3)
    times = [0.0]
    for _ in range(400):
        times.append(times[-1] + chance.uniform(0.101, 0.149))
    readings = [
        Row(t, index % 2, 0.0) for index, (first, second) in enumerate(pairwise(times)) for t in (first, second - 0.004)
    ]
    with pytest.raises(ValueError, match="no grid"):
        period_of(changes(readings))


def test_kernel_times_are_moved_by_whole_hours_only() -> None:
    assert same_hour([(100.5, 101.0), (102.0, 103.0)], 3699.2) == [(3700.5, 3701.0), (3702.0, 3703.0)]
    assert same_hour([(100.5, 101.0)], 99.0) == [(100.5, 101.0)]


@pytest.mark.parametrize("name", PERIODS)
def test_the_period_of_a_real_card_is_found_from_where_its_readings_change(name: str) -> None:
    readings = rows(name)
    built = rebuild(readings)
    assert built.period == pytest.approx(PERIODS[name], abs=0.002)
    assert len(built.windows) == pytest.approx((readings[-1].t - readings[0].t) / built.period, abs=1.5)
    for seen in readings[:: len(readings) // 50]:
        held = [one.percent for one in built.windows if one.t <= seen.t]
        assert not held or held[-1] == seen.percent


@pytest.mark.parametrize("name", ["update_freq_v100", "5050_rtx3090"])
def test_the_collector_finds_the_period_in_the_real_stamps_as_in_a_ring(name: str) -> None:
    """The stamps here jitter by the 7-14 ms of the poll; a ring's do not."""
    built = rebuild(rows(name))
    found = period([Entry(round(one.t * 1e6), one.percent) for one in built.windows][:72])
    assert found is not None
    assert found.seconds == pytest.approx(PERIODS[name], abs=0.002)


def test_the_recorded_kernels_are_the_pattern_that_the_file_s_name_says() -> None:
    times = kernels("5050_rtx3090")
    assert len(times) == 80
    on = [end - start for start, end in times]
    off = [second[0] - first[1] for first, second in pairwise(times)]
    assert sum(on) / len(on) == pytest.approx(0.0496, abs=0.0001)
    assert sum(off) / len(off) == pytest.approx(0.0501, abs=0.0001)
