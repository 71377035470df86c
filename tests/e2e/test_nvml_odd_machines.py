"""Odd machines through the real binding, in virtual time: each is a state with a sentence, never a crash, never 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gaptop_collectors.devices.nvml_periods import FILE_NAME
from tests.fakes.nvml import build, virtual
from tests.fakes.nvml.child import Line, of, readings

BUSY = {"series": [(0.9, 300.0), (0.4, 200.0), (0.7, 250.0)], "loop": True}
NEVER_ZERO = ("device.busy", "device.power", "device.memory_used", "device.memory_total", "device.clock_sm")


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def source(lines: Sequence[Line]) -> str:
    return str(next(line["source"] for line in lines if line["is"] == "SourceInfo"))


def last(lines: Sequence[Line]) -> dict[str, Any]:
    return of(lines, "SourceInfo", source(lines))[-1]


def values(lines: Sequence[Line], key: str) -> list[float]:
    return [value for _, value in readings(lines, key, source(lines))]


def zeros(lines: Sequence[Line]) -> list[str]:
    return [key for key in NEVER_ZERO if 0 in values(lines, key)]


def watched(profile: str, seconds: float = 8.0, **how: Any) -> list[Line]:
    lines = virtual.run(seconds, {**BUSY, "profile": profile}, begin=1.0, **how)
    assert lines[-1]["is"] == "Sampled"
    assert zeros(lines) == []
    assert not set(last(lines)["unsupported"]) & {batch_key(key) for key in told(lines)}
    return lines


def told(lines: Iterable[Line]) -> set[str]:
    """Keys of which a reading came since the last description of the source."""
    found: set[str] = set()
    for line in lines:
        if line["is"] == "SourceInfo":
            found = set()
        elif line["is"] == "Batch":
            found |= set(line["values"])
    return found


def batch_key(key: str) -> str:
    return key.partition("{")[0]


def test_a_jetson_orin_opens_and_tells_nothing() -> None:
    lines = watched("jetson_orin")
    info = last(lines)
    assert "tells no utilisation" in info["says"]
    assert "tegrastats" in info["says"]
    assert "host's memory" in info["unsupported"]["device.memory_total"]
    assert not values(lines, "device.busy")
    marks = [line["time_ns"] for line in of(lines, "Delivered", source(lines))]
    assert marks[-1] - marks[0] > 7e9  # nothing waits for it


def test_a_jetson_thor_tells_utilisation_only() -> None:
    info = last(lines := watched("jetson_thor"))
    assert len(values(lines, "device.busy")) > 30
    assert {"device.memory_total", "device.clock_sm", "device.power"} <= set(info["unsupported"])
    assert "tegrastats" not in info["says"]


@pytest.mark.parametrize("profile", ["gb10", "gb10_zero"])
def test_a_gb10_has_no_memory_of_its_own(profile: str) -> None:
    info = last(lines := watched(profile))
    for signal in ("device.memory_used", "device.memory_total"):
        assert "shares the host's memory" in info["unsupported"][signal]
    assert len(values(lines, "device.busy")) > 30


def test_a_ring_that_is_dry_for_minutes_is_polled_idle_and_goes_on() -> None:
    device = {"profile": "gb10", "intervals": [(0, 20), (140, 170)]}
    lines = virtual.run(170, device)
    busy = readings(lines, "device.busy", source(lines))
    begun = busy[0][0] - 0.2e9
    idle = [value for t, value in busy if 30e9 < t - begun < 135e9]
    assert len(idle) > 450
    assert set(idle) == {0.0}  # polled, and truly idle
    assert {value for t, value in busy if t - begun > 145e9} == {1.0}
    refreshes = [line["refresh"] for line in of(lines, "SourceInfo", source(lines))]
    assert "polled" in refreshes
    assert refreshes[-1] == "window"


def test_wsl2_polls_and_learns_its_window() -> None:
    info = last(lines := watched("wsl2", 20))
    assert info["refresh"] == "polled"
    assert (info["window"], info["window_measured"]) == (pytest.approx(0.2, abs=0.004), True)
    assert "device.foreign_processes" in info["unsupported"]
    assert len(values(lines, "device.busy")) > 80


def test_a_polled_window_of_another_length_is_learnt_too() -> None:
    lines = virtual.run(30, {**BUSY, "profile": "wsl2", "window_ms": 167})
    assert last(lines)["window"] == pytest.approx(0.167, abs=0.003)
    steps = [t for t, _ in readings(lines, "device.busy", source(lines))][-40:]
    assert (steps[-1] - steps[0]) / 39 == pytest.approx(0.167e9, rel=0.03)


def test_a_vgpu_guest_says_that_it_is_one() -> None:
    assert "vGPU guest" in last(watched("vgpu"))["says"]


def test_persistence_off_says_how_to_switch_it_on() -> None:
    says = last(watched("persistence_off"))["says"]
    assert "sudo nvidia-smi -pm 1" in says
    assert "awake" in says


def test_an_old_driver_lacks_what_it_lacks() -> None:
    info = last(lines := watched("old_driver"))
    assert info["window_measured"]
    assert values(lines, "device.limit_reasons")  # by its older name
    assert "too old" in info["unsupported"]["device.sm_active"]


def test_a_container_that_loses_its_devices_has_a_hole_and_a_sentence() -> None:
    lines = virtual.run(12, {**BUSY, "profile": "container_reload"})
    assert lines[-1]["is"] == "CollectorError"
    assert lines[-1]["retry"]
    assert "restart it" in lines[-1]["says"]
    assert of(lines, "Hole", source(lines))
    assert "container" in last(lines)["says"]
    assert zeros(lines) == []


def test_a_replaced_driver_names_its_remedy() -> None:
    (line,) = [line for line in virtual.run(2, {**BUSY, "profile": "driver_replaced"}) if line["is"] != "Sampled"]
    assert (line["is"], line["retry"]) == ("CollectorError", False)
    assert "different versions" in line["says"]


def test_a_driver_that_is_replaced_while_we_run_is_said() -> None:
    lines = virtual.run(8, {**BUSY, "fail": (18, 5.0, 0)})
    assert "driver was replaced while gaptop ran" in last(lines)["says"]
    assert zeros(lines) == []


def test_a_period_is_kept_for_the_next_run(tmp_path: Path) -> None:
    first = virtual.run(6, {**BUSY, "profile": "v100"}, state=tmp_path)
    assert last(first)["window"] == pytest.approx(0.167, abs=0.001)
    (kept,) = tmp_path.iterdir()
    assert json.loads(kept.read_text())["gpus"][0]["driver"] == "595.45.04"
    idle = virtual.run(3, {"profile": "v100", "series": [(0.0, 60.0)]}, state=tmp_path)
    info = of(idle, "SourceInfo", source(idle))[0]
    assert (info["window"], info["window_measured"]) == (pytest.approx(0.167, abs=0.001), True)
    assert "measured on an earlier run" in info["says"]
    another = virtual.run(3, {"profile": "v100", "series": [(0.0, 60.0)]}, state=tmp_path, driver="600.1")
    assert last(another)["window_measured"] is False
    kept.write_text("damaged")
    assert last(virtual.run(3, {"profile": "v100", "series": [(0.0, 60.0)]}, state=tmp_path))["window"] == 0.2


@pytest.mark.parametrize("how", ["nearest", "down"])
def test_rounding_is_told_where_gpm_is_there_and_kept(tmp_path: Path, how: str) -> None:
    wave = [(k * 0.0513, k * 0.0513 + 0.015 + 0.02 * ((k * 7) % 29) / 29) for k in range(6000)]
    lines = virtual.run(240, {"profile": "h100", "intervals": wave, "rounding": how}, state=tmp_path)
    infos = of(lines, "SourceInfo", source(lines))
    assert infos[0]["rounding"] == "percent"
    assert infos[-1]["rounding"] == how
    again = virtual.run(2, {"profile": "h100", "intervals": wave, "rounding": how}, state=tmp_path)
    assert last(again)["rounding"] == how


def test_the_drivers_own_latency_and_our_calls_are_on_the_stream() -> None:
    lines = virtual.run(6, {**BUSY, "latency_us": ("all", 250)})
    assert values(lines, "device.own_latency")[-1] == pytest.approx(250e-6, rel=0.01)
    lines = virtual.run(6, {**BUSY, "slow": ("nvmlDeviceGetTemperature", 5, 0, 0)})
    own = values(lines, "device.own_calls")
    assert own == sorted(own)
    assert own[-1] - own[0] >= 0.005


def test_a_slow_call_backs_off_everything_but_the_ring() -> None:
    lines = virtual.run(60, {**BUSY, "slow": ("nvmlDeviceGetFieldValues", 40, 100, 0)})
    notes = [line for line in lines if line["is"] == "Note"]
    assert [note["data"]["stretch"] for note in notes if note["what"] == "nvml_backoff"] == [2, 4, 8]
    slow = [note for note in notes if note["what"] == "our_slow_call"]
    assert all(note["data"]["seconds"] == pytest.approx(0.04, abs=0.002) for note in slow)
    steps = [t for t, _ in readings(lines, "device.busy", source(lines))]
    assert {round((later - earlier) / 2e8) for earlier, later in zip(steps, steps[1:], strict=False)} == {1}
    assert not of(lines, "Hole", source(lines))
    power = [t for t, _ in readings(lines, "device.power", source(lines))]
    assert power[-1] - power[-2] == pytest.approx(2e9, rel=0.2)
    assert last(lines)["period"] == pytest.approx(2.0)


def test_a_clock_of_the_boot_is_named() -> None:
    info = last(virtual.run(4, BUSY, clock="boot"))
    assert info["clock"] == "boot"
    assert info["rounding"] == "percent"
    assert info["says"].startswith("Resolution 200 ms (measured), jitter 0 ms, every window from the driver's ring")


def test_doctor_tells_resolution_clock_rounding_and_cost(tmp_path: Path) -> None:
    environment = os.environ | build.environment({"devices": [BUSY]}) | {"XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "gaptop", "doctor", "--no-host"]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120).stdout
    for words in (
        "Resolution 200 ms (measured)",
        "wall clock",
        "whole per cents",
        "own calls to its driver take",
        "(#0 ",
    ):
        assert words in text
    assert (tmp_path / "gaptop" / FILE_NAME).exists()  # for the next run
