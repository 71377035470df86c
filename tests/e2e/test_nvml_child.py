"""The unmodified NVML binding in a child process, against the stand-in library: what a healthy GPU tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.nvml.child import SERIES, Line, enough, of, read, readings, start, watch

pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def windows(lines: Sequence[Line], start_ns: int, window_s: float) -> list[tuple[float, float]]:
    """(index of the window by time, value) of every busy reading; a whole index means an exact time."""
    lag_s = of(lines, "SourceInfo")[-1]["lag"]
    return [((t - start_ns) / 1e9 / window_s - lag_s / window_s - 1, v) for t, v in readings(lines, "device.busy")]


@pytest.mark.parametrize(("window_ms", "clock"), [(200, "epoch"), (167, "boot"), (500, "monotonic")])
def test_every_window_arrives_once_in_order_at_its_time(window_ms: int, clock: str) -> None:
    began = time.monotonic_ns() - 6_000_000_000
    device = {"series": SERIES, "loop": True, "window_ms": window_ms, "rotate": True, "garbage": True}
    lines = watch(enough(2500 // window_ms), device, start_ns=began, clock=clock)
    info = of(lines, "SourceInfo")[-1]
    assert info["window"] == pytest.approx(window_ms / 1000, abs=0.002)
    assert info["window_measured"]
    assert info["refresh"] == "window"
    assert "ring" in info["says"]
    seen = windows(lines, began, window_ms / 1000)
    for index, value in seen:
        assert index == pytest.approx(round(index), abs=0.03)
        assert value == pytest.approx(SERIES[round(index) % len(SERIES)][0])
    assert {round(after) - round(before) for (before, _), (after, _) in pairwise(seen)} == {1}
    assert not of(lines, "Hole")
    marks = [line["time_ns"] for line in of(lines, "Delivered")]
    assert marks == sorted(marks)
    assert marks[-1] == readings(lines, "device.busy")[-1][0] - info["lag"] * 1e9


def test_stamps_of_an_unknown_clock_are_anchored_and_said() -> None:
    began = time.monotonic_ns() - 6_000_000_000
    lines = watch(enough(12), {"series": SERIES, "loop": True}, start_ns=began, clock="odd", offset_ns=7 * 10**17)
    info = of(lines, "SourceInfo")[-1]
    assert "no known clock" in info["says"]
    assert info["error"] >= 0.2
    values = [value for _, value in windows(lines, began, 0.2)]
    series = [busy for busy, _ in SERIES] * 10
    assert any(values == pytest.approx(series[shift : shift + len(values)]) for shift in range(len(SERIES)))


def test_w_is_assumed_until_the_ring_tells_it() -> None:
    def measured(lines: list[Line]) -> bool:
        return lines[-1]["is"] == "SourceInfo" and lines[-1]["window_measured"] is True

    lines = watch(measured, {"series": [(0.5, 100), (0.6, 110)], "loop": True, "window_ms": 167})
    sent = [(line["window"], line["window_measured"]) for line in of(lines, "SourceInfo")]
    assert sent[0] == (0.2, False)
    assert sent[-1] == (pytest.approx(0.167, abs=0.002), True)


def test_power_energy_counters_and_gauges() -> None:
    device = {
        "series": SERIES,
        "loop": True,
        "pids": [os.getpid(), 1],
        "counter": [(74, 0.25)],
        "reasons": 4,
        "wrap32": True,
        "pcie_rate": 4e8,
    }
    lines = watch(enough(9, "device.pcie_rx"), device, pids=[os.getpid()])
    assert {value for _, value in readings(lines, "device.power")} <= {watts for _, watts in SERIES}
    assert readings(lines, "device.power_limit")[0][1] == 700
    assert readings(lines, "device.memory_used")[0][1] == 20 * 2**30
    assert int(readings(lines, "device.limit_reasons")[0][1]) & 4
    assert readings(lines, "device.clock_memory")[0][1] == 2619e6
    limited = readings(lines, "device.limit_seconds{reason=sw_power_cap}")
    (t0, first), (t1, last) = limited[0], limited[-1]
    assert (last - first) / ((t1 - t0) / 1e9) == pytest.approx(0.25, rel=0.2)
    received = [value for _, value in readings(lines, "device.pcie_rx")]
    assert received == sorted(received)
    assert received[0] < 2**32 < received[-1]
    energy = [value for _, value in readings(lines, "device.energy")]
    assert energy == sorted(energy)
    assert energy[-1] > energy[0]
    assert readings(lines, "device.foreign_processes")[-1][1] == 1
    assert of(lines, "SourceInfo")[-1]["entity"]["pids"] == [os.getpid()]


def test_pids_of_another_namespace_are_unknown_not_foreign() -> None:
    lines = watch(enough(2, "device.power"), {"pids": [2**22 + 5]}, pids=[os.getpid()])
    info = of(lines, "SourceInfo")[-1]
    assert info["entity"]["pids"] is None
    assert "container" in info["unsupported"]["device.foreign_processes"]
    assert not readings(lines, "device.foreign_processes")


@pytest.mark.parametrize("without", [(), ("nvmlDeviceGetSamples",)])
def test_a_dry_or_missing_ring_is_polled(without: tuple[str, ...]) -> None:
    began = time.monotonic_ns() - 200_000_000
    device = {"series": SERIES, "loop": True, "dry": (0, 1e6)}
    lines = watch(enough(14), device, without=without, start_ns=began)
    info = of(lines, "SourceInfo")[-1]
    assert info["refresh"] == "polled"
    assert "polled" in info["says"]
    assert not info["window_measured"]
    assert info["error"] == pytest.approx(0.1)
    for index, value in windows(lines, began, 0.2)[2:]:
        # Its stamp is right within the stated half window; as much again for a poll that came late.
        near = {SERIES[round(index + off) % len(SERIES)][0] for off in (-0.5, 0, 0.5)}
        assert any(value == pytest.approx(one) for one in near)
    if not without:
        hole = of(lines, "Hole")[0]
        assert hole["end_ns"] - hole["start_ns"] > 0.5e9
    newest, mark = readings(lines, "device.busy")[-1][0], of(lines, "Delivered")[-1]["time_ns"]
    assert newest - mark == pytest.approx(info["lag"] * 1e9)


def test_a_ring_that_was_dry_for_a_while_is_used_again() -> None:
    def refreshes(lines: list[Line]) -> list[str]:
        return [line["refresh"] for line in of(lines, "SourceInfo")]

    def back(lines: list[Line]) -> bool:
        return "polled" in refreshes(lines) and refreshes(lines)[-1] == "window" and lines[-1]["is"] == "Batch"

    lines = watch(back, {"series": [(0.0, 60)], "dry": (0.5, 4.0)})
    assert refreshes(lines)[0] == "window"
    times = [t for t, _ in readings(lines, "device.busy")]
    assert times == sorted(set(times))
    assert {value for _, value in readings(lines, "device.busy")} == {0.0}


def ran_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_mirror_mode_shows_a_process_as_a_gpu() -> None:
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    child = start({"mirror": [burner.pid]})
    assert child.stdout
    try:
        first = child.stdout.readline()
        time.sleep(0.5)
        from_ns, ran_before = time.monotonic_ns(), ran_ns(burner.pid)
        time.sleep(1.5)
        to_ns, ran_after = time.monotonic_ns(), ran_ns(burner.pid)
        burner.send_signal(signal.SIGSTOP)

        def idle(lines: Sequence[Line]) -> list[float]:
            return [value for t, value in readings(lines, "device.busy") if t > to_ns + 0.3e9]

        lines = [json.loads(first), *read(child, lambda lines: len(idle(lines)) >= 3)]
    finally:
        burner.kill()
        burner.wait()
    burning = [value for t, value in readings(lines, "device.busy") if from_ns + 0.1e9 < t < to_ns]
    assert len(burning) >= 5
    share = (ran_after - ran_before) / (to_ns - from_ns)  # 1.0 alone; on a crowded machine what it gets
    assert sum(burning) / len(burning) == pytest.approx(share, abs=0.15)
    assert max(idle(lines)) < 0.05
