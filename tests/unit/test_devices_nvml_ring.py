"""The ring of utilisation samples: cleaning, clock, period, polled fallback."""

from __future__ import annotations

import csv
import gzip
import random
from datetime import datetime
from pathlib import Path

import pytest

from gaptop_collectors.devices.nvml_polling import PollGrid
from gaptop_collectors.devices.nvml_ring import (
    ClockMap,
    Clocks,
    Entry,
    beside,
    clean,
    clock_map,
    period,
    refreshed,
    spacing,
)

DATA = Path(__file__).parents[3] / "shared" / "data" / "gpu_power"
HOUR_NS = 3_600_000_000_000
CLOCKS = Clocks(monotonic=50 * HOUR_NS, boot=58 * 24 * HOUR_NS, epoch=1_800_000_000_000_000_000)


@pytest.mark.parametrize(
    ("raw", "after", "kept"),
    [
        ([], 0, []),
        ([(300, 3), (100, 1), (200, 2)], 0, [(100, 1), (200, 2), (300, 3)]),
        ([(0, 50), (100, 1)], 0, [(100, 1)]),
        ([(0, 50)], 0, []),
        ([(100, 37100), (200, 101), (300, 100), (400, -1)], 0, [(300, 100)]),
        ([(100, 7), (100, 7), (200, 0)], 0, [(100, 7), (200, 0)]),
        ([(100, 1), (200, 2), (300, 3)], 200, [(300, 3)]),
        ([(200, 2)], 200, []),
    ],
)
def test_clean(raw: list[tuple[int, int]], after: int, kept: list[tuple[int, int]]) -> None:
    assert clean([Entry(*entry) for entry in raw], after) == kept


def test_memory_is_taken_from_the_same_window() -> None:
    gpu = [Entry(200_000, 1), Entry(400_000, 2), Entry(600_000, 3), Entry(800_000, 4)]
    memory = [Entry(1_000, 9), Entry(200_004, 10), Entry(599_990, 30), Entry(1_000_000, 50)]
    assert beside(gpu, memory) == [10, None, 30, None]
    assert beside([], memory) == []


@pytest.mark.parametrize(
    ("newest_ns", "max_age", "domain"),
    [
        (CLOCKS.epoch - 50_000_000, 2.0, "epoch"),
        (CLOCKS.boot - 50_000_000, 2.0, "boot"),
        (CLOCKS.monotonic - 50_000_000, 2.0, "monotonic"),
        (CLOCKS.epoch - 2 * HOUR_NS, 86400.0, "epoch"),
        (CLOCKS.boot - 2 * HOUR_NS, 86400.0, "boot"),
        (CLOCKS.epoch - 5_000_000_000, 2.0, "anchored"),
        (CLOCKS.epoch + 5_000_000_000, 2.0, "anchored"),
        (7_777_777_000, 2.0, "anchored"),
    ],
)
def test_the_clock_is_the_one_by_which_the_stamp_is_young(newest_ns: int, max_age: float, domain: str) -> None:
    found = clock_map(newest_ns // 1000, CLOCKS, max_age)
    assert found.domain == domain
    age = CLOCKS.monotonic - found.monotonic_ns(newest_ns // 1000)
    assert -100_000_000 <= age <= max_age * 1e9
    assert (found.error_s > 0.2) == (domain == "anchored")


def test_a_host_that_never_slept_has_two_clocks_in_one() -> None:
    awake = CLOCKS._replace(boot=CLOCKS.monotonic + 3)
    assert clock_map(awake.monotonic // 1000 - 200_000, awake, 2).offset_ns in (0, -3)


def test_a_stepped_wall_clock_moves_the_map() -> None:
    before = clock_map((CLOCKS.epoch - 10_000_000) // 1000, CLOCKS, 2)
    later = Clocks(CLOCKS.monotonic + 10**9, CLOCKS.boot + 10**9, CLOCKS.epoch + 10**9 - 60 * 10**9)
    stamp = (later.epoch - 20_000_000) // 1000
    assert refreshed(before, stamp, later).monotonic_ns(stamp) == later.monotonic - 20_000_000


def test_an_anchored_clock_learns_the_shortest_lag() -> None:
    truth = 123_456_789_000  # ns to add to a stamp
    known = ClockMap("anchored", 10**18, 0.45)
    for lag_ns in (180_000_000, 20_000_000, 90_000_000):
        stamp = (CLOCKS.monotonic - lag_ns - truth) // 1000
        known = refreshed(known, stamp, CLOCKS)
    assert known.offset_ns == truth + 20_000_000


def ring(window_us: int, count: int, percent: int = 90, jitter_us: int = 0, lost: float = 0.0) -> list[Entry]:
    dice = random.Random(7)
    stamps = [10**15 + k * window_us + dice.randint(-jitter_us, jitter_us) for k in range(count)]
    return [Entry(stamp, percent) for stamp in stamps if dice.random() >= lost]


@pytest.mark.parametrize(
    ("entries", "seconds"),
    [
        (ring(200_000, 72), 0.2),
        (ring(166_667, 72, jitter_us=900), 0.167),
        (ring(500_000, 20, jitter_us=2000), 0.5),
        (ring(200_000, 72, lost=0.2), 0.2),
        (ring(200_000, 120, lost=0.6), 0.2),
        (ring(200_000, 8), 0.2),
        (ring(200_000, 7), None),
        (ring(200_000, 72, percent=0), None),
        (ring(200_000, 72, jitter_us=90_000), None),
        (ring(5_000_000, 72), None),
        ([], None),
    ],
)
def test_period(entries: list[Entry], seconds: float | None) -> None:
    found = period(entries)
    if seconds is None:
        assert found is None
    else:
        assert found is not None
        assert found.seconds == pytest.approx(seconds, abs=0.001)
        assert found.jitter < seconds / 4


def test_idle_stretches_do_not_count_for_the_period() -> None:
    idle = [Entry(10**15 + k * 1_000_000, 0) for k in range(30)]
    busy = [Entry(idle[-1].stamp_us + (k + 1) * 200_000, 50) for k in range(20)]
    found = period(idle + busy)
    assert found is not None
    assert found.seconds == pytest.approx(0.2)
    assert spacing(idle) == pytest.approx(1.0)
    assert spacing(idle[:2]) == 0.0


@pytest.mark.parametrize(("name", "seconds"), [("5050_rtx3090", 0.2), ("update_freq_v100", 0.167)])
def test_period_of_public_recordings(name: str, seconds: float) -> None:
    """nvidia-smi at 7 to 13 ms: the moments at which its utilisation changed stand in for the ring's stamps."""
    path = DATA / f"{name}_gpudata.csv.gz"
    if not path.exists():
        pytest.skip("the public GPU recordings are not beside this checkout")
    entries: list[Entry] = []
    with gzip.open(path, "rt") as rows:
        for row in list(csv.reader(rows))[1:4000]:
            stamp, percent = datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f").timestamp(), int(row[1])
            if not entries or entries[-1].percent != percent:
                entries.append(Entry(int(stamp * 1e6), percent))
    found = period(entries)
    assert found is not None
    assert found.seconds == pytest.approx(seconds, abs=0.01)


def polled(values: list[tuple[int, tuple[int, int]]], window_ms: int = 200) -> list[tuple[float, int]]:
    grid = PollGrid(window_ms * 1_000_000)
    stamps = [(grid.read(ms * 1_000_000, reading), reading[0]) for ms, reading in values]
    return [(stamp / 1e6, percent) for stamp, percent in stamps if stamp is not None]


def test_a_repeated_value_within_a_window_is_no_news() -> None:
    constant = polled([(ms, (70, 30)) for ms in range(0, 2000, 100)])
    assert len(constant) == pytest.approx(10, abs=1)
    gaps = [later - earlier for (earlier, _), (later, _) in zip(constant, constant[1:], strict=False)]
    assert set(gaps) == {200.0}


def test_the_grid_finds_the_phase_of_the_changes() -> None:
    """The counter moves at 30 + 200·k ms; after the first change no observation is off by half a window."""
    values = [(ms, (int((ms - 30) // 200 * 7 % 90), 0)) for ms in range(0, 4000, 100)]
    seen = polled(values)[2:]
    assert [percent for _, percent in seen] == [int(k * 7 % 90) for k in range(1, 20)][-len(seen) :]
    for stamp, _ in seen:
        assert abs((stamp - 30 + 100) % 200 - 100) < 100


@pytest.mark.parametrize("phase_ms", range(0, 200, 7))
def test_polled_closely_each_window_is_one_observation_of_its_own_value(phase_ms: int) -> None:
    """A window that ends a little after the grid expects it is not first given with the value of the one before."""
    values = [(ms, ((ms - phase_ms) // 200 * 7 % 90 + 1, 0)) for ms in range(0, 4000, 30)]
    seen = polled(values)[2:]
    steps = [later - earlier for (earlier, _), (later, _) in zip(seen, seen[1:], strict=False)]
    assert min(steps) > 150
    percents = [percent for _, percent in seen]
    assert all(earlier != later for earlier, later in zip(percents, percents[1:], strict=False))


def test_a_late_poll_is_one_observation_not_three() -> None:
    seen = polled([(0, (50, 0)), (100, (50, 0)), (900, (60, 0)), (1000, (60, 0))])
    assert [percent for _, percent in seen].count(60) == 1
    assert [stamp for stamp, _ in seen] == sorted({stamp for stamp, _ in seen})
