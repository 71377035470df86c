"""Properties of what is made of the driver's rings: whatever lies in them, and however late they are read."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop_collectors.devices import nvml_utilization
from gaptop_collectors.devices.nvml_calls import Calls
from gaptop_collectors.devices.nvml_ring import Clocks, Entry, beside, clean, clock_map, refreshed
from gaptop_collectors.devices.nvml_utilization import LAG_NS, Gap, Row, Utilization

pynvml = pytest.importorskip("pynvml")
STAMPS = st.integers(min_value=0, max_value=40) | st.integers(min_value=0, max_value=10**16)
PERCENT = st.integers(min_value=0, max_value=100) | st.integers(min_value=-5, max_value=70_000)
ENTRIES = st.lists(st.builds(Entry, STAMPS, PERCENT), max_size=120)
HOUR_NS = 3_600 * 10**9


@given(ENTRIES, STAMPS, st.randoms())
def test_clean_is_sorted_new_possible_and_whole_in_any_order(raw: list[Entry], after: int, dice: Any) -> None:
    kept = clean(raw, after)
    assert all(earlier.stamp_us < later.stamp_us for earlier, later in pairwise(kept))
    assert all(one.stamp_us > after and 0 <= one.percent <= 100 and one in raw for one in kept)
    wanted = {one.stamp_us for one in raw if one.stamp_us > max(after, 0) and 0 <= one.percent <= 100}
    assert {one.stamp_us for one in kept} == wanted  # nothing good is lost
    shuffled = list(raw)
    dice.shuffle(shuffled)
    assert [one.stamp_us for one in clean(shuffled, after)] == [one.stamp_us for one in kept]
    assert clean(kept, after) == kept


@given(
    st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=60, unique=True),
    st.data(),
)
def test_memory_is_of_the_same_window_or_none(windows: list[int], data: st.DataObject) -> None:
    """Windows of 200 ms; either ring lacks some, and their stamps differ by up to 9 ms."""
    gpu = [Entry(k * 200_000, k % 101) for k in sorted(windows)]
    there = [k for k in sorted(windows) if data.draw(st.booleans())]
    memory = [Entry(k * 200_000 + data.draw(st.integers(-9_000, 9_000)), (k + 7) % 101) for k in there]
    assert beside(gpu, memory) == [(k + 7) % 101 if k in there else None for k in sorted(windows)]


@given(
    st.sampled_from(["epoch", "boot", "monotonic"]),
    st.integers(min_value=0, max_value=1_900_000_000),  # ns that the newest entry is old
    st.integers(min_value=2 * HOUR_NS, max_value=300 * 24 * HOUR_NS),  # since the boot
    st.integers(min_value=HOUR_NS, max_value=40 * 24 * HOUR_NS),  # asleep: boot clock minus monotonic
)
def test_the_drivers_clock_is_found_and_its_stamps_are_right_to_the_microsecond(
    domain: str, age: int, uptime: int, asleep: int
) -> None:
    clocks = Clocks(uptime, uptime + asleep, 1_800_000_000 * 10**9)
    reading = {"epoch": clocks.epoch, "boot": clocks.boot, "monotonic": clocks.monotonic}[domain]
    stamp = (reading - age) // 1000
    found = clock_map(stamp, clocks, 2.0)
    assert found.domain == domain
    assert abs(found.monotonic_ns(stamp) - (clocks.monotonic - age)) < 2000
    later = Clocks(clocks.monotonic + 10**9, clocks.boot + 10**9, clocks.epoch + 4 * 10**9)  # stepped by 3 s
    moved = {"epoch": later.epoch, "boot": later.boot, "monotonic": later.monotonic}[domain]
    stamp = (moved - age) // 1000
    assert abs(refreshed(found, stamp, later).monotonic_ns(stamp) - (later.monotonic - age)) < 2000


@given(STAMPS, st.integers(min_value=1, max_value=10**17), st.floats(min_value=0.1, max_value=1e6))
def test_no_stamp_becomes_a_time_in_the_future_or_too_old(newest: int, uptime: int, max_age: float) -> None:
    clocks = Clocks(uptime, uptime + 5, 1_800_000_000 * 10**9)
    at = clock_map(newest, clocks, max_age).monotonic_ns(newest)
    assert clocks.monotonic - max_age * 1e9 - 2000 <= at <= clocks.monotonic + 100_002_000


class Driver:
    """Both rings of a GPU whose window k reads k % 97, kept for ``slots`` windows; time is moved by hand."""

    def __init__(self, window_ms: int, slots: int) -> None:
        self.window = window_ms * 1_000_000
        self.slots = slots
        self.now = self.start = 1_000 * 10**9
        library = SimpleNamespace(**vars(pynvml))
        library.nvmlDeviceGetSamples = self._samples
        library.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=1, memory=1)
        self.utilization = Utilization(Calls(library), self.start)  # type: ignore[arg-type]
        self.utilization.start(None)

    def clocks(self) -> Clocks:
        return Clocks(self.now, self.now + 7 * 24 * HOUR_NS, self.now + 1_800_000_000 * 10**9)

    def _samples(self, handle: Any, kind: int, after: int) -> Any:
        out = (self.now - LAG_NS) // self.window
        shift = 2 if kind == pynvml.NVML_MEMORY_UTILIZATION_SAMPLES else 1
        found = [
            SimpleNamespace(timeStamp=stamp, sampleValue=SimpleNamespace(uiVal=1 + k * shift % 97))
            for k in range(out - self.slots + 1, out + 1)
            if (stamp := (k * self.window + LAG_NS + 7 * 24 * HOUR_NS) // 1000) > after
        ]
        if not found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 1, found[len(found) // 2 :] + found[: len(found) // 2]

    def read(self, seconds_later: float) -> tuple[list[Row], list[Gap]]:
        self.now += int(seconds_later * 1e9)
        return self.utilization.read(None, self.now)


PAUSES = st.lists(st.sampled_from([0.25, 0.26, 0.3, 0.9, 1.0, 2.5, 7.0, 11.0, 20.0, 45.0]), min_size=1, max_size=25)


@settings(deadline=None)
@given(st.sampled_from([100, 167, 200, 500]), st.sampled_from([60, 72, 99]), PAUSES)
def test_each_window_is_read_once_or_lies_in_a_hole_of_exactly_the_lost_time(
    window_ms: int, slots: int, pauses: list[float]
) -> None:
    """A drain within the ring's length loses nothing; after a longer pause the hole is what was overwritten."""
    driver = Driver(window_ms, slots)
    before, nvml_utilization.read_clocks = nvml_utilization.read_clocks, driver.clocks
    try:
        for _ in range(30):  # W is known from here on
            driver.read(0.25)
        first = driver.utilization.delivered_ns
        rows: list[Row] = []
        gaps: list[Gap] = []
        for pause in [*pauses, 0.25]:
            more_rows, more_gaps = driver.read(pause)
            rows += more_rows
            gaps += more_gaps
    finally:
        nvml_utilization.read_clocks = before
    window = driver.window
    ends = [round((row.stamp_ns - LAG_NS) / window) for row in rows]
    assert all(abs(row.stamp_ns - LAG_NS - k * window) < 2000 for row, k in zip(rows, ends, strict=True))
    assert ends == sorted(set(ends))
    for row, k in zip(rows, ends, strict=True):
        assert (row.busy, row.memory_busy) == ((1 + k % 97) / 100, (1 + 2 * k % 97) / 100)
    lost = [k for k in range(round(first / window) + 1, ends[-1] + 1 if ends else 0) if k not in set(ends)]
    # Windows that no row has are exactly those that holes cover, and a ring's length is never lost.
    covered = [k for gap in gaps for k in range(round(gap.start_ns / window) + 1, round(gap.end_ns / window) + 1)]
    assert covered == lost
    if max(pauses) + 1 < slots * window / 1e9:
        assert lost == []
    assert driver.utilization.window_s == pytest.approx(window_ms / 1000, abs=0.001)
