"""GPM against a scripted driver, in time that is moved by hand: pairs, lateness, refusals, repeats."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_gpm import Gpm, Reading
from tests.unit.nvml_scripted import START, Binding, Gpu, pynvml

ALL = {"device.graphics_active": 0.6, "device.sm_active": 0.4, "device.tensor_active": 0.1, "device.dram_active": 0.2}


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, gpu: Gpu | None = None) -> None:
        self.gpu = gpu or Gpu("GPU-0")
        self.binding = Binding(monkeypatch, self.gpu)
        self.library = self.binding.library
        self.calls = Calls(self.library)
        self.gpm = Gpm(self.calls)

    def start(self) -> None:
        self.gpm.start(self.binding.now, self.gpu.handle, self.library.nvmlGpmSampleGet, self.gpu.handle)

    def run(self, seconds: float, step_s: float = 0.2) -> list[Reading]:
        readings = []
        for _ in range(round(seconds / step_s)):
            self.binding.now += round(step_s * 1e9)
            reading = self.gpm.read(self.binding.now)
            readings += [reading] if reading else []
        return readings


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.start()
    return made


def test_adjacent_samples_are_differenced_without_a_gap_between(world: World) -> None:
    first, *rest = world.run(2.0)
    assert first == Reading(START, START + 200_000_000, {}, "the first of two GPM samples")
    assert [reading.values for reading in rest] == [ALL] * 9
    assert [(one.end_ns - one.start_ns) / 1e9 for one in rest] == [0.2] * 9
    assert all(before.end_ns == after.start_ns for before, after in pairwise([first, *rest]))
    assert len(world.binding.samples) == 2


def test_no_sample_is_taken_within_120_ms_of_the_one_before_even_when_that_was_slow(world: World) -> None:
    world.run(3.0, step_s=0.01)
    world.gpu.takes_s["nvmlGpmSampleGet"] = 0.19
    world.run(3.0, step_s=0.01)
    times = world.binding.times("nvmlGpmSampleGet")
    assert len(times) > 20
    assert all(after - before >= 0.12e9 for before, after in pairwise(times))
    slow = [at for at in times if at > START + 3.2e9]
    assert all(after - (before + 0.19e9) >= 0.12e9 for before, after in pairwise(slow))


@pytest.mark.parametrize(("stretch", "distance_s"), [(1, 0.2), (4, 0.8)])
def test_a_sample_is_taken_each_200_ms_however_often_it_is_asked_and_rarer_when_our_calls_are_dear(
    world: World, stretch: int, distance_s: float
) -> None:
    world.calls.cost.stretch = stretch
    readings = world.run(12.0, step_s=0.02)
    assert world.gpm.window_s == pytest.approx(distance_s)
    given = [(one.end_ns - one.start_ns) / 1e9 for one in readings if one.values]
    assert given == pytest.approx([distance_s] * len(given), abs=0.03)
    assert sum(given) / len(given) == pytest.approx(distance_s, rel=0.01)
    assert len(given) >= 12 / distance_s - 5


def test_a_pair_that_came_late_is_missing_time_and_no_reading(world: World) -> None:
    world.run(1.0)
    (late,) = world.run(0.5, step_s=0.5)
    assert late.values == {}
    assert "late" in late.missing
    assert late.end_ns - late.start_ns == 500_000_000
    (after,) = world.run(0.2)
    assert after.values == ALL
    assert after.start_ns == late.end_ns


def test_a_sample_whose_call_was_slow_has_no_known_moment_and_ends_no_pair(world: World) -> None:
    world.run(1.0)
    world.gpu.takes_s["nvmlGpmSampleGet"] = 0.06
    (slow,) = world.run(0.2)
    world.gpu.takes_s.clear()
    assert not slow.values
    first, second = world.run(0.4)
    assert not first.values
    assert second.values == ALL
    assert second.start_ns == first.end_ns


def test_a_slower_pace_becomes_the_stated_window(world: World) -> None:
    world.run(1.0)
    readings = world.run(4.0, step_s=0.4)
    assert world.gpm.window_s == pytest.approx(0.4)
    assert [bool(reading.values) for reading in readings].count(False) <= 3
    assert {round((one.end_ns - one.start_ns) / 1e9, 3) for one in readings} == {0.4}
    world.run(2.0)
    assert world.gpm.window_s == pytest.approx(0.2)


@pytest.mark.parametrize("number", [math.nan, math.inf, -0.5, 100.5])
def test_what_is_no_share_of_time_is_dropped_not_clipped(world: World, number: float) -> None:
    world.gpu.busy[10] = number
    readings = world.run(1.0)[1:]
    assert all(set(reading.values) == set(ALL) - {"device.dram_active"} for reading in readings)
    assert bool(world.gpm.dropped) == (not math.isnan(number))


def test_all_nan_is_missing_time_never_zero(world: World) -> None:
    world.gpu.busy = dict.fromkeys(world.gpu.busy, math.nan)
    assert {reading.missing for reading in world.run(1.0)[1:]} == {"GPM gave no number"}


def test_a_metric_that_the_driver_lacks_fails_alone_and_is_asked_no_more(world: World) -> None:
    world.gpu.busy[5] = 1000.0 + pynvml.NVML_ERROR_NOT_SUPPORTED
    assert all(set(reading.values) == set(ALL) - {"device.tensor_active"} for reading in world.run(1.0)[1:])
    assert "does not offer" in world.gpm.unsupported["device.tensor_active"]
    assert world.gpm.works


def test_a_metric_that_fails_once_is_asked_again(world: World) -> None:
    world.gpu.busy[5] = 1000.0 + pynvml.NVML_ERROR_NO_DATA
    world.run(1.0)
    world.gpu.busy[5] = 10.0
    assert world.run(0.2)[-1].values == ALL


def test_a_request_refused_for_a_metric_too_new_is_made_without_it(world: World) -> None:
    answer = world.library.nvmlGpmMetricsGet

    def refuse(request: object) -> None:
        if 248 in [request.metrics[index].metricId for index in range(request.numMetrics)]:  # type: ignore[attr-defined]
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        answer(request)

    world.library.nvmlGpmMetricsGet = refuse  # type: ignore[attr-defined]
    assert world.run(0.4)[-1].values == ALL
    assert world.gpm.works


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_NO_PERMISSION, "NVreg_RestrictProfilingToAdminUsers=0"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "Hopper and newer"),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "too old"),
    ],
)
@pytest.mark.parametrize("function", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet"])
def test_a_refusal_is_a_state_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, function: str, code: int, words: str
) -> None:
    world = World(monkeypatch)
    world.gpu.fails[function] = code
    world.start()
    readings = world.run(1.0)
    assert not any(reading.values for reading in readings)
    assert not world.gpm.works
    assert set(world.gpm.unsupported) == set(ALL)
    assert words in world.gpm.unsupported["device.sm_active"]
    assert not world.binding.samples
    assert len(world.binding.times(function)) == 1


def test_permission_refused_for_each_metric_is_told_as_such(world: World) -> None:
    world.gpu.busy = dict.fromkeys(world.gpu.busy, 1000.0 + pynvml.NVML_ERROR_NO_PERMISSION)
    world.run(1.0)
    assert "run gaptop with sudo" in world.gpm.why
    assert not world.binding.samples


def test_a_gpu_without_gpm_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0", gpm=False))
    world.start()
    assert world.run(1.0) == []
    assert "Hopper" in world.gpm.why
    assert not world.binding.times("nvmlGpmSampleAlloc")


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_IN_USE, pynvml.NVML_ERROR_UNKNOWN])
def test_another_profiler_is_waited_for_and_the_gpu_is_not_called_lost(world: World, code: int) -> None:
    world.run(1.0)
    world.gpu.fails["nvmlGpmSampleGet"] = code
    readings = world.run(5.0)
    assert world.gpm.works
    assert world.gpm.trouble
    assert not any(reading.values for reading in readings)
    assert len(readings) <= 4  # not at every turn
    assert sum(reading.end_ns - reading.start_ns for reading in readings) > 3.5e9
    world.gpu.fails.clear()
    readings = world.run(3.0)
    assert readings[-1].values == ALL
    assert not world.gpm.trouble


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_lost_gpu_is_told(world: World, code: int) -> None:
    world.gpu.fails["nvmlGpmSampleGet"] = code
    with pytest.raises(CallFailed):
        world.run(1.0)


def test_an_old_sample_is_no_reading_whatever_its_numbers(world: World) -> None:
    world.run(1.0)
    world.gpu.frozen = True
    frozen = world.run(1.0)[1:]
    assert not any(reading.values for reading in frozen)
    world.gpu.frozen = False
    thawed = world.run(1.0)
    assert thawed[-1].values == ALL
    assert not thawed[0].values
    # The pair that spans the standstill is no reading of 200 ms.
    assert all((one.end_ns - one.start_ns) == 200_000_000 for one in thawed if one.values)


def test_without_the_cycles_counter_the_very_same_numbers_are_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0", cycles=False))
    world.start()
    readings = world.run(1.0)
    assert readings[1].values == ALL
    assert {reading.missing for reading in readings[2:]} == {"GPM gave its last sample again"}
    world.gpu.busy[2] = 41.0
    assert not world.run(0.2)[-1].values  # it spans the standstill
    world.gpu.busy[2] = 42.0
    assert world.run(0.2)[-1].values["device.sm_active"] == 0.42


@pytest.mark.parametrize("number", [0.0, 100.0])
def test_idle_and_full_come_again_by_themselves(monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    world = World(monkeypatch, Gpu("GPU-0", cycles=False, busy=dict.fromkeys((1, 2, 5, 10), number)))
    world.start()
    assert [set(reading.values.values()) for reading in world.run(2.0)[1:]] == [{number / 100}] * 9


def test_closing_frees_the_samples_and_starting_again_makes_new_ones(world: World) -> None:
    world.run(1.0)
    world.gpm.close()
    assert not world.binding.samples
    assert world.run(1.0) == []
    world.start()
    assert len(world.binding.samples) == 2
    first, second = world.run(0.4)
    assert first.missing
    assert second.values == ALL
