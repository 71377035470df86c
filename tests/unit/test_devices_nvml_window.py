"""W: learnt from polled changes, taken from an earlier run, corrected by the ring."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from gaptop_collectors.devices.nvml_polling import CLOSE_FOR_S, CloseLook, change_period
from gaptop_collectors.devices.nvml_ring import Entry, Period
from gaptop_collectors.devices.nvml_window import AGAIN_NS, Window

DATA = Path(__file__).parents[3] / "shared" / "data" / "gpu_power"


# --- the period of a polled value's changes


CHANCE = [one / 1000 for one in random.Random(1).sample(range(50, 2000), 100)]


def polled_changes(window_s: float, values: Sequence[int], poll_s: float, seed: int = 3) -> list[float]:
    """Intervals between changes of a counter that takes the next value each ``window_s``, as polling sees them."""
    dice = random.Random(seed)
    now = phase = dice.uniform(0, 1)
    seen, before, changed, found = None, now, None, []
    while now < phase + window_s * len(values):
        value = values[min(int((now - phase) / window_s), len(values) - 1)]
        if seen is not None and value != seen:
            at = (before + now) / 2
            if changed is not None:
                found.append(at - changed)
            changed = at
        seen, before = value, now
        now += poll_s * dice.uniform(0.9, 1.1)
    return found


def noisy(count: int, repeats: float, seed: int = 5) -> list[int]:
    dice, values = random.Random(seed), [50]
    for _ in range(count):
        values.append(values[-1] if dice.random() < repeats else dice.randint(1, 99))
    return values


@pytest.mark.parametrize("window_s", [0.1, 1 / 6, 0.2, 0.202, 0.5, 1.0])
@pytest.mark.parametrize("repeats", [0.0, 0.5, 0.8])
def test_the_period_is_found_though_values_repeat(window_s: float, repeats: float) -> None:
    found = change_period(polled_changes(window_s, noisy(150, repeats), 0.02), 0.01)
    assert found is not None
    assert found.seconds == pytest.approx(window_s, rel=0.02)


def test_changes_that_are_never_one_window_apart_still_tell_it() -> None:
    """An A100 with W = 202 ms was seen to change after 810, 1010 and 1215 ms only: the median would say 1.01 s."""
    found = change_period([0.810, 1.010, 1.215, 1.010, 0.810, 1.010, 1.215, 1.010, 0.810, 1.010], 0.005)
    assert found is not None
    assert found.seconds == pytest.approx(0.2022, abs=0.001)


@pytest.mark.parametrize(
    "intervals",
    [[], [0.2] * 7, CHANCE, [5.0] * 50, [0.01] * 50],
)
def test_too_few_or_no_agreement_is_no_period(intervals: list[float]) -> None:
    assert change_period(intervals, 0.01) is None


def test_one_interval_in_ten_may_be_anything() -> None:
    found = change_period([0.2] * 27 + [0.09, 0.31, 0.49], 0.005)
    assert found is not None
    assert found.seconds == pytest.approx(0.2, abs=0.002)
    assert change_period([0.2] * 20 + [0.07, 0.35, 0.47, 0.55, 0.23], 0.005) is None


@pytest.mark.parametrize(
    ("name", "seconds", "tolerance"), [("5050_rtx3090", 0.2, 0.002), ("update_freq_v100", 0.167, 0.002)]
)
def test_changes_of_public_recordings(name: str, seconds: float, tolerance: float) -> None:
    path = DATA / f"{name}_gpudata.csv.gz"
    if not path.exists():
        pytest.skip("the public GPU recordings are not beside this checkout")
    instants: list[float] = []
    before: tuple[float, int] | None = None
    with gzip.open(path, "rt") as rows:
        for row in list(csv.reader(rows))[1:4000]:
            stamp, percent = datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f").timestamp(), int(row[1])
            if before and before[1] != percent:
                instants.append((stamp + before[0]) / 2)
            before = (stamp, percent)
    intervals = [later - earlier for earlier, later in zip(instants, instants[1:], strict=False)]
    found = change_period(intervals, 0.006)
    assert found is not None
    assert found.seconds == pytest.approx(seconds, abs=tolerance)


def look_at(look: CloseLook, window_s: float, seconds: float, values: Sequence[int]) -> tuple[Period | None, float]:
    """Poll as the fallback does (closely while it looks); what was found, and for how long it was polled closely."""
    now, closely, found = 10.0, 0.0, None
    end = now + seconds
    while now < end:
        value = values[int(now / window_s) % len(values)]
        found = look.read(int(now * 1e9), (value, 0)) or found
        distance = 0.02 if look.looking(int(now * 1e9)) else window_s / 2
        closely += distance if distance == 0.02 else 0
        now += distance
    return found, closely


def test_it_is_polled_closely_for_five_seconds_a_minute_and_only_while_the_value_moves() -> None:
    values = noisy(400, 0.3)
    found, closely = look_at(CloseLook(), 0.2, 20, values)
    assert found is not None
    assert found.seconds == pytest.approx(0.2, abs=0.004)
    assert closely == pytest.approx(CLOSE_FOR_S, abs=0.2)
    _, closely = look_at(CloseLook(), 0.2, 130, values)
    assert closely == pytest.approx(3 * CLOSE_FOR_S, abs=0.5)
    found, closely = look_at(CloseLook(), 0.2, 20, [0])
    assert (found, closely) == (None, 0.0)


# --- which of them is W


def ring(window_us: int, count: int, percent: int = 90, start: int = 10**15) -> list[Entry]:
    return [Entry(start + k * window_us, percent) for k in range(count)]


def test_the_ring_corrects_what_an_earlier_run_kept() -> None:
    window = Window(Period(0.2, 0.003, 0))
    assert (window.seconds, window.by, window.measured) == (0.2, "kept", Period(0.2, 0.003, 0))
    window.entries(ring(166_667, 6), 0)
    assert window.by == "kept"
    window.entries(ring(166_667, 6, start=10**15 + 6 * 166_667), 10**9)
    assert (window.seconds, window.by) == (0.167, "ring")


def changing(window: Window, window_s: float, ring_too: bool, seconds: float = 70) -> None:
    """Long enough for two looks: of 500 ms windows, one sees too few changes."""
    values = noisy(900, 0.2)
    for k in range(int(seconds / 0.02)):
        now = 10 + k * 0.02
        window.polled(int(now * 1e9), (values[int(now / window_s)], 0), ring_too)


def test_polled_changes_tell_w_where_there_is_no_ring_and_only_there() -> None:
    without = Window(None)
    changing(without, 1 / 6, ring_too=False, seconds=8)
    assert without.by == "changes"
    assert without.seconds == pytest.approx(0.167, abs=0.003)
    kept = Window(Period(0.2, 0.0, 0))
    changing(kept, 0.5, ring_too=False)
    assert kept.by == "changes"
    assert kept.seconds == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("by", ["ring", "kept"])
def test_the_ring_is_trusted_against_polled_changes_and_both_are_known(by: str) -> None:
    """A driver may answer polls from a copy that it renews each 500 ms only."""
    window = Window(Period(0.2, 0.0, 0) if by == "kept" else None)
    if by == "ring":
        window.entries(ring(200_000, 20), 0)
    changing(window, 0.5, ring_too=True)
    assert (window.seconds, window.by) == (0.2, by)
    assert window.changes is not None
    assert window.changes.seconds == pytest.approx(0.5, abs=0.01)


def test_it_is_measured_again_each_minute_and_after_idleness() -> None:
    window = Window(None)
    window.entries(ring(200_000, 72), 0)
    slower = ring(250_000, 72, start=10**16)
    window.entries(slower, AGAIN_NS - 1)
    assert window.seconds == 0.2
    window.entries(slower[-1:], AGAIN_NS)
    assert window.seconds == 0.25
    window.entries(ring(250_000, 40, percent=0, start=10**17), AGAIN_NS + 1)
    woken = ring(500_000, 80, start=2 * 10**17)
    for k in range(8):
        window.entries(woken[k : k + 1], AGAIN_NS + 2 + k)
    # Eight entries after the idleness are enough to measure it, and make the median of the busy intervals.
    assert window.seconds == 0.5
