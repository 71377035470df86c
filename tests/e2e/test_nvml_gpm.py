"""GPM, MIG slices, NVLink and Xids through the real binding and the stand-in library, mostly in virtual time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gaptop.timeline.timeline import Timeline
from tests.fakes.nvml import build, child, virtual
from tests.fakes.nvml.child import Line, of, readings
from tests.fakes.nvml.clocks import BEGIN_NS

BUSY = [(0.0, 3.0), (3.3, 6.0), (6.05, 9.0), (10.0, 14.0)]
GPU = {"uuid": "GPU-fake-0", "intervals": BUSY}


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def busy_between(start_s: float, end_s: float) -> float:
    return sum(max(0.0, min(end, end_s) - max(start, start_s)) for start, end in BUSY) / (end_s - start_s)


def timeline(lines: Sequence[Line]) -> Timeline:
    made = Timeline()
    for line in virtual.stream(lines):
        made.apply(line)
    return made


@pytest.mark.parametrize("jitter", [0.0, 0.06])
def test_every_gpm_reading_is_the_mean_of_its_own_time(jitter: float) -> None:
    lines = virtual.run(16, {**GPU, "profile": "h100"}, jitter=jitter, seed=3)
    info = of(lines, "SourceInfo")[-1]
    assert info["window_by_signal"]["device.graphics_active"] == pytest.approx(0.2, abs=0.05)
    assert info["refresh_by_signal"]["device.sm_active"] == "gpm"
    seen = timeline(lines)
    (series,) = seen.ids("device.graphics_active")
    steps = seen.steps(series, 1.0, 15.0)
    lengths = steps.end - steps.start
    assert len(lengths) > 45
    assert lengths.sum() > 0.9 * 14
    assert lengths.min() >= 0.12 - 1e-6
    for start, end, value in zip(steps.start, steps.end, steps.value, strict=True):
        if start > 1.0 and end < 15.0:
            assert value == pytest.approx(busy_between(start, end), abs=2e-3)


def test_gpm_leaves_the_rings_windows_whole() -> None:
    lines = virtual.run(16, {**GPU, "profile": "h100"}, jitter=0.05, seed=1)
    times = [t for t, _ in readings(lines, "device.busy")]
    assert {round((after - before) / 2e8) for before, after in zip(times, times[1:], strict=False)} == {1}
    assert not of(lines, "Hole")


def test_each_mig_slice_is_a_device_from_gpm_and_its_gpu_has_power() -> None:
    lines = virtual.run(16, {**GPU, "profile": "h100_mig"}, pids=[os.getpid()])
    seen = timeline(lines)
    for uuid, share in (("MIG-h100-0", 1.0), ("MIG-h100-2", 0.5)):
        info = of(lines, "SourceInfo", f"nvml/{uuid}")[-1]
        assert info["entity"]["parent"] == "GPU-fake-0"
        assert (info["window"], info["window_measured"], info["refresh"]) == (0.2, True, "gpm")
        assert "device.power" in info["unsupported"] or "device.power" not in info["signals"]
        (series,) = seen.ids("device.busy", f"nvml/{uuid}")
        assert seen.mean(series, 1.0, 15.0) == pytest.approx(share * busy_between(1.0, 15.0), abs=0.02)
        assert seen.coverage(series, 1.0, 15.0) > 0.98
        assert readings(lines, "device.memory_total", f"nvml/{uuid}")
    assert of(lines, "SourceInfo", "nvml/MIG-h100-0")[-1]["entity"]["slice"] == "1g.10gb"
    parent = of(lines, "SourceInfo")[-1]
    assert "device.busy" in parent["unsupported"]
    assert readings(lines, "device.power")
    assert not readings(lines, "device.busy")


def test_slices_before_hopper_say_what_offers_their_utilisation() -> None:
    lines = virtual.run(4, {**GPU, "profile": "a100_mig"})
    for source in (child.FAKE, "nvml/MIG-a100-0", "nvml/MIG-a100-1"):
        info = of(lines, "SourceInfo", source)[-1]
        assert "GPM (Hopper and newer)" in info["unsupported"]["device.busy"]
        assert "--dcgm URL" in info["unsupported"]["device.busy"]
        assert not readings(lines, "device.busy", source)


def test_a_vgpu_with_gpm_alone_has_its_utilisation_from_it() -> None:
    lines = virtual.run(16, {**GPU, "profile": "vgpu_mig"})
    seen = timeline(lines)
    (series,) = seen.ids("device.busy")
    assert seen.mean(series, 1.0, 15.0) == pytest.approx(busy_between(1.0, 15.0), abs=0.01)
    assert not seen.ids("device.graphics_active")
    (power_of_hole,) = [seen.mean(series, 9.2, 9.8)]
    assert power_of_hole == 0


def test_gpm_refused_to_this_user_is_a_state_and_utilisation_goes_on() -> None:
    refused = {**GPU, "profile": "h100", "unsupported": [("nvmlGpmSampleGet", 4)]}
    lines = virtual.run(4, refused)
    info = of(lines, "SourceInfo")[-1]
    assert "NVreg_RestrictProfilingToAdminUsers=0" in info["unsupported"]["device.sm_active"]
    assert readings(lines, "device.busy")
    assert not [line for line in lines if line["is"] == "Note"]


def test_single_metrics_that_a_driver_lacks_are_named() -> None:
    lines = virtual.run(4, {**GPU, "profile": "h100", "gpm_missing": [5, 248]})
    info = of(lines, "SourceInfo")[-1]
    assert "device.tensor_active" in info["unsupported"]
    assert "device.sm_active" in info["signals"]


def test_an_old_driver_without_gpm_is_no_trouble() -> None:
    lines = virtual.run(4, {**GPU, "profile": "old_driver"})
    assert "too old" in of(lines, "SourceInfo")[-1]["unsupported"]["device.sm_active"]
    assert readings(lines, "device.busy")


@pytest.mark.parametrize(("version", "unit"), [(4, 1024), (5, 1)])
@pytest.mark.parametrize("wraps", [False, True])
def test_nvlink_bytes_are_the_sum_of_the_links_that_are_up(version: int, unit: int, wraps: bool) -> None:
    device: dict[str, Any] = {
        **GPU,
        "nvlink_links": 4,
        "nvlink_down": [2],
        "nvlink_rate": (2e8, 3e8),
        "nvlink_version": version,
        "wrap32": wraps,
    }
    lines = virtual.run(20, device)
    for signal, rate in (("device.nvlink_rx", 2e8), ("device.nvlink_tx", 3e8)):
        counted = readings(lines, signal)
        values = [value for _, value in counted]
        assert values == sorted(values)
        (t0, first), (t1, last) = counted[0], counted[-1]
        assert (last - first) / ((t1 - t0) / 1e9) == pytest.approx(3 * rate, rel=0.01, abs=3 * unit)
    assert not any("nvlink" in signal for signal in of(lines, "SourceInfo")[-1]["unsupported"])


def test_no_nvlink_says_so() -> None:
    lines = virtual.run(3, GPU)
    assert "no NVLink" in of(lines, "SourceInfo")[-1]["unsupported"]["device.nvlink_rx"]


def test_xids_are_told_with_their_gpu() -> None:
    other = {"uuid": "GPU-other", "intervals": BUSY, "xid": [(79, 2.0), (13, 3.0)]}
    lines = virtual.run(6, {**GPU, "xid": (31, 1.5)}, other)
    told = [(line["data"]["xid"], line["source"]) for line in lines if line["is"] == "Note" and line["what"] == "xid"]
    assert told == [(31, "nvml/GPU-fake-0"), (79, "nvml/GPU-other"), (13, "nvml/GPU-other")]


def test_a_gpu_that_reports_no_xids_is_measured_all_the_same() -> None:
    def told(lines: list[Line]) -> bool:
        return "Xid errors are not reported here" in of(lines, "SourceInfo")[-1]["says"] and bool(
            readings(lines, "device.busy")
        )

    lines = child.watch(told, {**GPU, "unsupported": ["nvmlDeviceRegisterEvents"]})
    assert told(lines)
    assert not [line for line in lines if line["is"] == "Note" and line["what"] == "xid"]


def test_after_a_loss_gpm_and_xids_begin_again() -> None:
    sick = {**GPU, "profile": "h100", "fail": (15, 3.0, 6.0), "xid": [(31, 10.0)]}
    lines = virtual.run(14, sick, {"uuid": "GPU-well", "intervals": BUSY})
    notes = [line["what"] for line in lines if line["is"] == "Note"]
    assert notes == ["gpu_lost", "gpu_back", "xid"]
    shown = [t for t, _ in readings(lines, "device.sm_active")]
    lost, back = (BEGIN_NS + second * 10**9 for second in (3, 6))
    assert [t for t in shown if t < lost]
    assert [t for t in shown if t > back + 3 * 10**9]
    assert not [t for t in shown if lost + 2 * 10**8 < t < back]


def test_everything_that_was_opened_is_closed_and_promptly(tmp_path: Path) -> None:
    calls = tmp_path / "calls.json"
    running = child.start({**GPU, "profile": "h100_mig"}, {"profile": "h100"}, calls=calls)
    lines = child.read(running, lambda lines: len(readings(lines, "device.busy", "nvml/MIG-h100-0")) >= 3)
    assert running.returncode == 0
    assert lines
    counted = build.calls_in(calls)
    assert counted["nvmlGpmSampleAlloc"] == counted["nvmlGpmSampleFree"] == 6
    assert counted["nvmlEventSetCreate"] == counted["nvmlEventSetFree"] == 1
    assert counted["nvmlShutdown"] == 1
