"""Reading one device's utilisation against a scripted driver and scripted clocks: what no real second can show."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gaptop_collectors.devices import nvml_utilization
from gaptop_collectors.devices.nvml_calls import Calls
from gaptop_collectors.devices.nvml_ring import Clocks
from gaptop_collectors.devices.nvml_utilization import LAG_NS, Gap, Row, Utilization

pynvml = pytest.importorskip("pynvml")
W = 200_000_000
START = 1_000 * 10**9


class Driver:
    """A GPU at 60 % whose windows end at multiples of W; time is moved by hand. ``wall`` is epoch minus monotonic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = START
        self.wall = 1_800_000_000 * 10**9
        self.entries: list[tuple[int, int]] = []
        self.ring_made = START - 5 * 10**9
        self.deliver: Callable[[int], bool] = lambda end: True
        self.memory_supported = True
        self.utilization = Utilization(Calls(self._library()), START)
        monkeypatch.setattr(nvml_utilization, "read_clocks", self.clocks)

    def clocks(self) -> Clocks:
        return Clocks(self.now, self.now + 7 * 86400 * 10**9, self.now + self.wall)

    def _library(self) -> Any:
        library = SimpleNamespace(**vars(pynvml))
        library.nvmlDeviceGetSamples = self._samples
        library.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=60, memory=30)
        return library

    def _samples(self, handle: Any, kind: int, after: int) -> Any:
        if kind == pynvml.NVML_MEMORY_UTILIZATION_SAMPLES and not self.memory_supported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        while self.ring_made + W + LAG_NS <= self.now:
            self.ring_made += W
            if self.deliver(self.ring_made):
                # The stamp is made at the window's end, with the wall clock of that moment.
                self.entries.append(((self.ring_made + LAG_NS + self.wall) // 1000, 60))
        found = [(stamp, value) for stamp, value in self.entries[-72:] if stamp > after]
        if not found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        sample = [SimpleNamespace(timeStamp=s, sampleValue=SimpleNamespace(uiVal=v)) for s, v in found]
        return pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, sample

    def run(self, seconds: float, step_s: float | None = None) -> tuple[list[Row], list[Gap]]:
        rows: list[Row] = []
        gaps: list[Gap] = []
        end = self.now + int(seconds * 1e9)
        while self.now < end:
            self.now += int((step_s or self.utilization.period) * 1e9)
            more_rows, more_gaps = self.utilization.read(None, self.now)
            rows += more_rows
            gaps += more_gaps
        return rows, gaps


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver(monkeypatch)
    driver.utilization.start(None)
    return driver


def ends(rows: list[Row]) -> list[int]:
    return [row.stamp_ns - LAG_NS for row in rows]


def test_only_windows_since_the_opening_and_each_once(driver: Driver) -> None:
    rows, gaps = driver.run(3.0)
    assert ends(rows) == [START + k * W for k in range(0, 15)][-len(rows) :]
    assert len(rows) >= 14
    assert rows[0] == Row(rows[0].stamp_ns, 0.6, 0.6)
    assert not gaps
    assert driver.utilization.window_s == 0.2
    assert driver.utilization.measured


def test_memory_without_a_ring_is_unsupported_not_zero(driver: Driver) -> None:
    driver.memory_supported = False
    rows, _ = driver.run(1.0)
    assert {row.memory_busy for row in rows} == {None}
    assert driver.utilization.memory_unsupported


@pytest.mark.parametrize("step_s", [-3600.0, -0.7, 0.7, 3600.0])
def test_a_stepped_wall_clock_costs_no_later_window(driver: Driver, step_s: float) -> None:
    driver.run(2.0)
    driver.wall += int(step_s * 1e9)
    rows, _ = driver.run(3.0)
    times = [row.stamp_ns for row in rows]
    assert times == sorted(set(times))
    assert times[-1] > driver.now - 2 * W
    settled = [end for end in ends(rows) if end > driver.now - 10 * W]
    assert len(settled) >= 8
    assert all(end % W == 0 for end in settled)


def test_a_dry_ring_is_a_gap_then_polled_and_the_watermark_goes_on(driver: Driver) -> None:
    driver.run(1.0)
    driver.deliver = lambda end: False
    rows, gaps = driver.run(5.0)
    assert driver.utilization.mode == "polled"
    (gap,) = gaps
    assert 0.5e9 < gap.end_ns - gap.start_ns < 1.5e9
    assert len(rows) == pytest.approx(4.0 / 0.2, abs=2)
    assert driver.now - driver.utilization.delivered_ns < 1.5 * W
    driver.deliver = lambda end: True
    rows, gaps = driver.run(2.0)
    assert not gaps
    assert driver.utilization.period == 0.25  # the ring again
    times = [row.stamp_ns for row in rows]
    assert all(later - earlier >= W / 2 for earlier, later in zip(times, times[1:], strict=False))


def test_polled_windows_go_on_when_their_length_has_been_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 500 ms are taken for 200 ms until two looks have seen enough changes."""
    driver = Driver(monkeypatch)
    library = driver._library()
    library.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(
        gpu=driver.now // 500_000_000 * 7 % 90, memory=1
    )

    def refuse(*arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    library.nvmlDeviceGetSamples = refuse
    driver.utilization = Utilization(Calls(library), START)
    driver.utilization.start(None)
    rows, gaps = driver.run(90.0)
    assert driver.utilization.window_s == pytest.approx(0.5, abs=0.01)
    assert not gaps
    times = [row.stamp_ns for row in rows]
    steps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert all(abs(step - 0.5e9) < 0.1e9 for step in steps[-40:])


def test_an_entry_that_comes_again_with_another_stamp_is_no_window(driver: Driver) -> None:
    """As from a driver that maps its own clock onto the wall clock at each call, a little otherwise each time."""
    rows, gaps = driver.run(1.0)
    for _ in range(20):
        driver.entries = [(stamp + 3, value) for stamp, value in driver.entries]
        more_rows, more_gaps = driver.run(0.25)
        rows += more_rows
        gaps += more_gaps
    times = [row.stamp_ns for row in rows]
    assert not gaps
    assert all(later - earlier > 0.9 * W for earlier, later in zip(times, times[1:], strict=False))
    assert driver.utilization.window_s == 0.2


def test_lost_ring_entries_are_a_gap_of_their_length(driver: Driver) -> None:
    driver.run(1.0)
    lost = {START + 7 * W, START + 8 * W}
    driver.deliver = lambda end: end not in lost
    rows, gaps = driver.run(2.0)
    assert gaps == [Gap(START + 6 * W, START + 8 * W, "the driver's ring had no entry")]
    assert not lost & set(ends(rows))


def test_a_late_drain_loses_nothing_that_the_ring_still_holds(driver: Driver) -> None:
    driver.run(1.0)
    rows, gaps = driver.run(9.0, step_s=9.0)
    assert len(rows) == 45
    assert not gaps


def test_after_a_new_session_the_ring_fills_what_was_missed(driver: Driver) -> None:
    rows, _ = driver.run(1.0)
    driver.now += 4 * 10**9  # the session broke down and was opened again
    again = Utilization(Calls(driver._library()), rows[-1].stamp_ns)
    again.start(None)
    missed, gaps = again.read(None, driver.now)
    assert missed[0].stamp_ns == rows[-1].stamp_ns + W
    assert len(missed) == 20
    assert not gaps


def test_neither_ring_nor_rates_is_unsupported_and_never_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)
    library = driver._library()

    def refuse(*arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    library.nvmlDeviceGetSamples = library.nvmlDeviceGetUtilizationRates = refuse
    driver.utilization = Utilization(Calls(library), START)
    driver.utilization.start(None)
    rows, gaps = driver.run(2.0)
    assert driver.utilization.mode == "unsupported"
    assert (rows, gaps) == ([], [])
    assert driver.utilization.delivered_ns == driver.now - LAG_NS


def test_a_dry_ring_and_no_rates_is_a_declared_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)
    library = driver._library()

    def refuse(*arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    library.nvmlDeviceGetUtilizationRates = refuse
    driver.utilization = Utilization(Calls(library), START)
    driver.utilization.start(None)
    driver.run(1.0)
    driver.deliver = lambda end: False
    rows, gaps = driver.run(7.0)
    assert not rows
    assert sum(gap.end_ns - gap.start_ns for gap in gaps) > 4e9
    assert driver.now - driver.utilization.delivered_ns < 2.5e9
