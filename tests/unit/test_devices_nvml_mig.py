"""MIG slices, and GPUs whose only utilisation is GPM, as they come and go, against a scripted driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, Note, SourceInfo
from gaptop_collectors.devices import nvml_start
from gaptop_collectors.devices.nvml import NvmlDevices
from gaptop_collectors.target import Processes, ServerProcess
from tests.unit.nvml_scripted import Binding, Gpu, pynvml


class Server(Processes):
    def current(self) -> Sequence[ServerProcess]:
        return [ServerProcess(1, "engine", "engine", True, 0)]

    def why_empty(self) -> str:
        return ""


def cut(number: int, **how: Any) -> Gpu:
    return Gpu(f"MIG-{number}", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", **how)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
        self.binding = Binding(monkeypatch, *gpus)
        monkeypatch.setattr(nvml_start, "load", lambda: self.binding.library)
        self.devices = NvmlDevices(Server())
        self.said: list[Message] = list(self.devices.open())

    def run(self, seconds: float) -> list[Message]:
        said: list[Message] = []
        until = self.binding.now + round(seconds * 1e9)
        while self.binding.now < until:
            self.binding.now += round(self.devices.period * 1e9)
            said += self.devices.sample()
        self.said += said
        return said

    def info(self, source: str) -> SourceInfo:
        return [one for one in self.said if isinstance(one, SourceInfo) and one.source == source][-1]


def readings(said: Sequence[Message], source: str, signal: str = "device.busy") -> list[float | None]:
    batches = [one for one in said if isinstance(one, Batch) and one.source == source and signal in one.values]
    return [value for batch in batches for value in batch.values[signal]]


def holes(said: Sequence[Message], source: str) -> list[Hole]:
    return [one for one in said if isinstance(one, Hole) and one.source == source]


def notes(said: Sequence[Message], what: str) -> list[Note]:
    return [one for one in said if isinstance(one, Note) and one.what == what]


def test_each_slice_is_a_device_and_its_gpu_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1), 2: cut(2, busy={1: 5.0, 2: 4.0, 5: 1.0, 10: 2.0})})
    world = World(monkeypatch, gpu)
    said = world.run(3.0)
    one = world.info("nvml/MIG-1")
    assert one.entity["parent"] == "GPU-0"
    assert one.entity["slice"] == "1g.10gb"
    assert one.entity["index"] == 0
    assert (one.window, one.window_measured, one.refresh, one.rounding, one.lag) == (0.2, True, "gpm", "", 0.0)
    assert set(readings(said, "nvml/MIG-1")) == {0.6}
    assert set(readings(said, "nvml/MIG-2")) == {0.05}
    assert set(readings(said, "nvml/MIG-1", "device.dram_active")) == {0.2}
    # One witness is not shown as two.
    assert not readings(said, "nvml/MIG-1", "device.graphics_active")
    assert "device.busy" in one.unsupported["device.graphics_active"]
    assert "whole GPU" in one.unsupported["device.clock_sm"]
    assert "mapping unknown" in one.says
    parent = world.info("nvml/GPU-0")
    assert "device.busy" not in parent.signals
    assert "slices" in parent.unsupported["device.busy"]
    assert not readings(said, "nvml/GPU-0")
    assert not holes(said, "nvml/MIG-1")
    assert world.devices.period == 0.2
    assert readings(world.said, "nvml/MIG-1", "device.memory_used") == readings(
        world.said, "nvml/MIG-2", "device.memory_used"
    )


def test_slices_that_appear_and_go_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1)})
    world = World(monkeypatch, gpu)
    assert not notes(world.run(6.0), "mig_changed")
    gpu.slices = {1: gpu.slices[1], 2: cut(2)}
    said = world.run(6.0)
    (appeared,) = notes(said, "mig_changed")
    assert "appeared" in appeared.says
    assert readings(said, "nvml/MIG-2")
    del gpu.slices[1]
    said = world.run(8.0)
    (gone,) = notes(said, "mig_changed")
    assert "is gone" in gone.says
    assert gone.data["uuid"] == "MIG-1"
    assert "does not answer" in world.info("nvml/MIG-1").says
    assert holes(said, "nvml/MIG-1")
    assert not readings(world.run(3.0), "nvml/MIG-1")
    assert set(readings(said, "nvml/MIG-2")) == {0.6}
    assert len(world.binding.samples) == 2


def test_a_slice_made_anew_under_its_name_is_read_again_after_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1)})
    world = World(monkeypatch, gpu)
    world.run(2.0)
    gpu.slices = {3: cut(1)}
    said = world.run(8.0)
    values = readings(said, "nvml/MIG-1")
    assert values
    assert set(values) == {0.6}
    missed = sum(hole.end_ns - hole.start_ns for hole in holes(said, "nvml/MIG-1"))
    given = len(values) * 0.2e9
    assert missed + given == pytest.approx(8.0e9, abs=0.4e9)
    marks = [one.time_ns for one in said if isinstance(one, Delivered) and one.source == "nvml/MIG-1"]
    assert marks == sorted(marks)


def test_compute_instances_that_share_a_gpu_instance_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1), 101: cut(2)})
    monkeypatch.setattr(Binding, "_cut", lambda self, gpu, instance: gpu.slices[instance])
    world = World(monkeypatch, gpu)
    world.run(1.0)
    assert "counts them together" in world.info("nvml/MIG-1").says
    alone = World(monkeypatch, Gpu("GPU-0", mig=1, slices={1: cut(1)}))
    alone.run(1.0)
    assert "counts them together" not in alone.info("nvml/MIG-1").says


def test_an_older_gpus_slices_tell_the_way_to_their_utilisation(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", "NVIDIA A100", gpm=False, mig=1, slices={1: cut(1)})
    world = World(monkeypatch, gpu)
    said = world.run(3.0)
    for source in ("nvml/GPU-0", "nvml/MIG-1"):
        reason = world.info(source).unsupported["device.busy"]
        assert "GPM (Hopper and newer)" in reason
        assert "--dcgm URL" in reason
        assert not readings(said, source)
    assert readings(said, "nvml/MIG-1", "device.memory_used")
    marks = [one.time_ns for one in said if isinstance(one, Delivered) and one.source == "nvml/MIG-1"]
    assert world.binding.now - marks[-1] <= 0.25e9


def test_a_slices_window_is_measured_once_two_samples_have_given_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0", mig=1, slices={1: cut(1)}))
    world.run(3.0)
    states = [one for one in world.said if isinstance(one, (SourceInfo, Batch)) and one.source == "nvml/MIG-1"]
    infos = [one for one in states if isinstance(one, SourceInfo)]
    assert not infos[0].window_measured
    assert "no two samples" in infos[0].says
    assert infos[-1].window_measured
    assert "200 ms (measured)" in infos[-1].says
    first_mean = next(n for n, one in enumerate(states) if isinstance(one, Batch) and "device.busy" in one.values)
    assert states.index(next(one for one in infos if one.window_measured)) < first_mean


def test_where_a_slice_has_no_gpm_no_signal_is_said_to_be_read_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0", "NVIDIA A100", gpm=False, mig=1, slices={1: cut(1)}))
    world.run(3.0)
    info = world.info("nvml/MIG-1")
    assert not info.window_measured
    assert info.unsupported["device.graphics_active"] == info.unsupported["device.busy"]
    assert "--dcgm" in info.unsupported["device.graphics_active"]


def test_mig_switched_on_and_off_under_us(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=0)
    world = World(monkeypatch, gpu)
    assert set(readings(world.run(3.0), "nvml/GPU-0")) == {0.6}
    assert world.info("nvml/GPU-0").window_by_signal["device.sm_active"] == 0.2
    gpu.mig, gpu.slices = 1, {1: cut(1)}
    said = world.run(8.0)
    assert [note.data.get("mig") for note in notes(said, "mig_changed")] == ["on"]
    assert holes(said, "nvml/GPU-0")
    assert set(readings(said, "nvml/MIG-1")) == {0.6}
    assert "device.busy" in world.info("nvml/GPU-0").unsupported
    assert not notes(said, "gpu_lost")
    gpu.mig, gpu.slices = 0, {}
    said = world.run(8.0)
    assert "off" in [note.data.get("mig") for note in notes(said, "mig_changed")]
    assert set(readings(said, "nvml/GPU-0")) == {0.6}
    assert "device.busy" in world.info("nvml/GPU-0").signals
    assert len(world.binding.samples) == 2


def test_a_gpu_whose_only_utilisation_is_gpm(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0", "NVIDIA H100 MIG-backed vGPU", rates=None))
    said = world.run(3.0)
    info = world.info("nvml/GPU-0")
    assert (info.window, info.window_measured, info.refresh, info.rounding) == (0.2, True, "gpm", "")
    assert set(readings(said, "nvml/GPU-0")) == {0.6}
    assert not readings(said, "nvml/GPU-0", "device.graphics_active")
    batch = next(one for one in said if isinstance(one, Batch) and "device.busy" in one.values)
    marks = [one.time_ns for one in said if isinstance(one, Delivered)]
    assert all(one.times_ns[0] > mark for one, mark in zip([batch], marks, strict=False))
    world.binding.now += 10**9
    late = world.devices.sample()
    assert any("late" in hole.reason for hole in holes(late, "nvml/GPU-0"))


def test_a_late_gpm_sample_does_not_cut_a_gpus_own_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0"))
    world.run(3.0)
    world.binding.now += 600_000_000
    said = world.devices.sample()
    assert not any("late" in hole.reason for hole in holes(said, "nvml/GPU-0"))
    assert not readings(said, "nvml/GPU-0", "device.sm_active")


def test_a_lost_gpu_takes_its_slices_along_and_brings_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1)})
    world = World(monkeypatch, gpu, Gpu("GPU-1"))
    world.run(2.0)
    gpu.fails["*"] = pynvml.NVML_ERROR_GPU_IS_LOST
    said = world.run(5.0)
    assert len(notes(said, "gpu_lost")) == 1
    assert sum(hole.end_ns - hole.start_ns for hole in holes(said, "nvml/MIG-1")) > 3.5e9
    assert not readings(said, "nvml/MIG-1")[1:]
    gpu.fails.clear()
    said = world.run(5.0)
    assert len(notes(said, "gpu_back")) == 1
    assert set(readings(said, "nvml/MIG-1")) == {0.6}
    assert "does not answer" not in world.info("nvml/MIG-1").says
    assert len(world.binding.samples) == 4


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"])
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_IN_USE])
def test_a_scan_that_fails_takes_no_slice_away(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1)})
    world = World(monkeypatch, gpu)
    world.run(2.0)
    gpu.fails[function] = code
    said = world.run(12.0)
    assert not [note for note in said if isinstance(note, Note) and note.what in ("mig_changed", "gpu_lost")]
    assert set(readings(said, "nvml/MIG-1")) == {0.6}
    assert not holes(said, "nvml/MIG-1")


def test_a_slice_that_fails_alone_has_a_hole_and_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0", mig=1, slices={1: cut(1), 2: cut(2)})
    world = World(monkeypatch, gpu)
    world.run(2.0)
    gpu.slices[1].fails["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_INVALID_ARGUMENT
    said = world.run(1.0)
    assert "GPM fails" in world.info("nvml/MIG-1").says
    assert holes(said, "nvml/MIG-1")
    assert set(readings(said, "nvml/MIG-2")) == {0.6}
    gpu.slices[1].fails.clear()
    said = world.run(6.0)
    assert readings(said, "nvml/MIG-1")
    assert "GPM fails" not in world.info("nvml/MIG-1").says
    assert not notes(world.said, "gpu_lost")
