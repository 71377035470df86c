"""Several GPUs and whole sessions, against a scripted driver: who waits for whom, what is lost and found again."""

from __future__ import annotations

import random

import pytest

from gaptop_collectors.collector import CollectorError, Hole
from gaptop_collectors.devices.nvml_events import XidWatch
from tests.unit.nvml_scripted import Gpu, pynvml
from tests.unit.test_devices_nvml_mig import World, holes, notes, readings


def test_the_slowest_gpu_comes_last_and_the_others_keep_their_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Gpu("GPU-slow", takes_s={"nvmlDeviceGetUtilizationRates": 0.015})
    world = World(monkeypatch, slow, Gpu("GPU-1"), Gpu("GPU-2"))
    world.run(2.0)
    world.binding.calls.clear()
    began = world.binding.now
    world.run(2.0)
    took = world.binding.times("nvmlGpmSampleGet")
    assert world.binding.now > began
    handles = [gpu.uuid for gpu in world.binding.gpus]
    assert handles[0] == "GPU-slow"
    assert len(took) >= 3 * 9
    # Of each round of three samples, two are taken before the slow GPU's calls have moved the time on.
    rounds = [took[index : index + 3] for index in range(0, len(took) - 2, 3)]
    assert all(first == second for first, second, _ in rounds)
    assert not [one for one in world.said if isinstance(one, Hole) and one.source != "nvml/GPU-slow"]


def test_one_lost_gpu_is_asked_every_two_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = Gpu("GPU-sick")
    world = World(monkeypatch, sick, Gpu("GPU-well"))
    world.run(2.0)
    sick.fails["*"] = pynvml.NVML_ERROR_UNKNOWN
    world.binding.calls.clear()
    said = world.run(6.0)
    assert len(world.binding.times("nvmlDeviceGetHandleByUUID")) in (2, 3)
    assert len(notes(said, "gpu_lost")) == 1
    assert len(readings(said, "nvml/GPU-well", "device.sm_active")) >= 28
    assert not holes(said, "nvml/GPU-well")


def test_after_all_were_lost_a_new_session_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("GPU-0")
    world = World(monkeypatch, gpu)
    world.run(2.0)
    gpu.fails["*"] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    said = world.devices.sample()
    world.binding.now += 250_000_000
    said = [*said, *world.devices.sample()] if not notes(said, "gpu_lost") else said
    assert notes(said, "gpu_lost")
    lost_ns = world.binding.now
    for _ in range(3):
        world.binding.now += 10**9
        with pytest.raises(CollectorError, match=r"No GPU answers any more|does not answer"):
            world.devices.sample()
        assert world.binding.sessions == 0
        assert not world.binding.samples
    gpu.fails.clear()
    world.binding.now += 10**9
    said = world.devices.sample()
    assert world.binding.sessions == 1
    assert [note.source for note in notes(said, "gpu_back")] == ["nvml/GPU-0"]
    said = world.run(2.0)
    assert set(readings(said, "nvml/GPU-0", "device.sm_active")) == {0.4}
    assert len(world.binding.samples) == 2
    assert world.binding.now - lost_ns > 5e9


def test_closing_frees_every_sample_before_the_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [Gpu("GPU-0"), Gpu("GPU-1", mig=1, slices={1: Gpu("MIG-1", "H100 MIG 1g.10gb")})]
    world = World(monkeypatch, *gpus)
    world.run(1.0)
    assert len(world.binding.samples) == 4
    world.devices.close()
    assert not world.binding.samples
    assert world.binding.sessions == 0
    assert [name for name, _ in world.binding.calls][-1] == "nvmlShutdown"


def test_a_session_whose_wait_hangs_is_not_ended_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0"))
    monkeypatch.setattr(XidWatch, "close", lambda self: False)
    world.devices.close()
    assert not world.binding.times("nvmlShutdown")


def test_gpus_that_all_answer_the_same_are_doubted_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Gpu("GPU-0", gpm=False), Gpu("GPU-1", gpm=False)
    world = World(monkeypatch, one, two)
    chance = random.Random(5)
    for _ in range(60):
        one.rates = two.rates = chance.randrange(1, 100)
        world.run(0.2)
    assert len(notes(world.said, "same_readings")) == 1
    for gpu in (one, two):
        assert "trust none" in world.info(f"nvml/{gpu.uuid}").says
    two.rates = (one.rates or 0) // 2
    world.run(1.0)
    assert "trust none" not in world.info("nvml/GPU-0").says


def test_the_servers_processes_on_a_gpu_that_lists_none_are_mapping_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Gpu("GPU-0"))
    world.run(1.0)
    info = world.info("nvml/GPU-0")
    assert info.entity["pids"] is None
    assert "mapping unknown" in info.says
