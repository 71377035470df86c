"""The unmodified NVML binding in a child process, against the stand-in library: what goes wrong with real GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.fakes.nvml.child import ROOT, SERIES, Line, enough, of, read, readings, start, watch

pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def test_mig_is_not_supported_never_zero() -> None:
    lines = watch(enough(3, "device.power"), {"series": SERIES, "mig": True})
    info = of(lines, "SourceInfo")[-1]
    assert "MIG is on" in info["unsupported"]["device.busy"]
    assert "device.busy" not in info["signals"]
    assert not readings(lines, "device.busy")
    marks = [line["time_ns"] for line in of(lines, "Delivered")]
    assert marks[-1] > marks[0]


def test_what_one_gpu_lacks_is_named_per_field() -> None:
    lacking = ["field:186", "field:83", "field:191", "nvmlDeviceGetTemperature", "nvmlDeviceGetEnforcedPowerLimit"]
    device = {"series": SERIES, "memory_total": 0, "unsupported": lacking}
    missing = {
        "device.energy",
        "device.temperature",
        "device.power_limit",
        "device.memory_used",
        "device.memory_total",
        "device.foreign_processes",
        "device.nvlink_rx",
        "device.nvlink_tx",
        "device.graphics_active",
        "device.sm_active",
        "device.tensor_active",
        "device.dram_active",
    }

    def told(lines: list[Line]) -> bool:
        return missing <= set(of(lines, "SourceInfo")[-1]["unsupported"]) and len(readings(lines, "device.power")) >= 3

    lines = watch(told, device)
    info = of(lines, "SourceInfo")[-1]
    assert set(info["unsupported"]) == missing
    assert "shares the host's memory" in info["unsupported"]["device.memory_total"]
    assert "GetPowerUsage" in info["says"]
    assert all(not readings(lines, signal) for signal in missing)


def test_an_old_driver_without_newer_symbols_still_tells_most() -> None:
    without = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons")
    lines = watch(enough(2), {"series": SERIES, "loop": True}, without=without)
    unsupported = of(lines, "SourceInfo")[-1]["unsupported"]
    assert "too old" in unsupported["device.energy"]
    assert "too old" in unsupported["device.limit_seconds"]
    assert readings(lines, "device.power")
    assert readings(lines, "device.limit_reasons")


def test_a_lost_gpu_has_a_hole_and_the_other_goes_on() -> None:
    def notes(lines: list[Line]) -> list[str]:
        return [line["what"] for line in of(lines, "Note", "nvml/GPU-sick") if line["what"].startswith("gpu")]

    def back(lines: list[Line]) -> bool:
        return (
            notes(lines)[-1:] == ["gpu_back"] and lines[-1]["is"] == "Batch" and lines[-1]["source"] == "nvml/GPU-well"
        )

    sick = {"series": SERIES, "loop": True, "uuid": "GPU-sick", "fail": (15, 3.0, 4.5), "dry": (3.0, 4.5)}
    well = {"series": SERIES, "loop": True, "uuid": "GPU-well"}
    lines = watch(back, sick, well)
    assert notes(lines) == ["gpu_lost", "gpu_back"]
    holes = of(lines, "Hole", "nvml/GPU-sick")
    assert sum(hole["end_ns"] - hole["start_ns"] for hole in holes) >= 1.3e9
    says = [line["says"] for line in of(lines, "SourceInfo", "nvml/GPU-sick")]
    assert any("does not answer" in text for text in says)
    assert "does not answer" not in says[-1]
    times = [t for t, _ in readings(lines, "device.busy", "nvml/GPU-sick")]
    assert times
    assert not any(hole["start_ns"] < t - 0.2e9 and t < hole["end_ns"] for hole in holes for t in times)
    assert not of(lines, "Hole", "nvml/GPU-well")
    others = [t for t, _ in readings(lines, "device.busy", "nvml/GPU-well")]
    assert {round((after - before) / 2e8) for before, after in pairwise(others)} == {1}


def test_the_only_gpu_lost_ends_with_a_sentence() -> None:
    lines = watch(lambda lines: False, {"series": SERIES, "loop": True, "fail_after_calls": (999, 60)})
    assert of(lines, "Hole")
    assert lines[-1]["is"] == "CollectorError"
    assert lines[-1]["retry"]
    assert "No GPU answers any more" in lines[-1]["says"]


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (9, "absent", "modprobe nvidia"),
        (18, "failing", "different versions"),
        (4, "refused", "/dev/nvidia"),
        (999, "failing", "nvidia-smi"),
    ],
)
def test_init_failures_name_their_remedy(code: int, state: str, words: str) -> None:
    (line,) = watch(lambda lines: False, {}, init_error=code)
    assert (line["is"], line["state"]) == ("CollectorError", state)
    assert words in line["says"]


def test_no_devices_no_init_symbol_no_library() -> None:
    (none,) = watch(lambda lines: False)
    assert none["state"] == "absent"
    (old,) = watch(lambda lines: False, {}, without=("nvmlInitWithFlags",))
    assert "too old" in old["says"]
    command = [sys.executable, "-m", "tests.fakes.nvml.watch"]
    plain = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    out = subprocess.run(
        command, cwd=ROOT, env=plain, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    ).stdout
    absent = json.loads(out.splitlines()[-1])
    if absent["is"] != "CollectorError":
        pytest.skip("this machine has a real NVIDIA driver")
    assert (absent["state"], absent["retry"]) == ("absent", False)


def test_a_hung_call_loses_no_window_and_is_noted() -> None:
    def hung(lines: list[Line]) -> list[Line]:
        return [line for line in lines if line["is"] == "Note" and line["data"].get("seconds", 0) >= 2.5]

    def over(lines: list[Line]) -> bool:
        return bool(hung(lines)) and lines[-1]["is"] == "Batch" and lines[-1]["times_ns"][0] > hung(lines)[0]["time_ns"]

    device = {"series": SERIES, "loop": True, "slow": ("nvmlDeviceGetTemperature", 2500, 30, 1)}
    lines = watch(over, device)
    assert hung(lines)[0]["what"] == "our_slow_call"
    assert hung(lines)[0]["data"]["call"] == "nvmlDeviceGetTemperature"
    times = [t for t, _ in readings(lines, "device.busy")]
    assert len(times) >= 12
    assert {round((after - before) / 2e8) for before, after in pairwise(times)} == {1}
    assert not of(lines, "Hole")


def test_a_crash_in_the_library_takes_its_process_only() -> None:
    child = start({"series": SERIES, "loop": True, "crash": ("nvmlDeviceGetSamples", 60)})
    lines = read(child, lambda lines: False)
    assert child.returncode == -signal.SIGSEGV
    assert of(lines, "Batch")
