"""Recordings of real cards, replayed as their drivers' windows through everything up to the report."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from tests.devices_truth import boxcar
from tests.devices_truth.recording import Rebuilt, kernels, rebuild, rows, same_hour
from tests.devices_truth.replay import Judged, judge, played, streams

NAMES: Final = ("update_freq_v100", "5050_rtx3090", "transient_rtx3090", "transient_rtx4090")
ACTIVE: Final = 0.05
"""More than what the drivers show at attach (1-2 %)."""
LAG: Final = 0.02
"""Seconds between a window's end and the poll that saw it, at most (5-10 ms of the driver, 7-13 ms of the poll)."""


@cache
def built(name: str) -> Rebuilt:
    return rebuild(rows(name))


@cache
def judged(name: str) -> Judged:
    seconds, device = played(built(name))
    (stream,) = streams(seconds, device)
    return judge(stream)


def stream_time(name: str, t: float) -> float:
    """Seconds of the stream at that time of the recording."""
    return t - built(name).windows[0].t + built(name).period


def active(name: str) -> list[tuple[float, float]]:
    """From where to where the timeline's steps show work."""
    found: list[tuple[float, float]] = []
    steps = judged(name).kept.busy
    for start, end, value in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True):
        if value > ACTIVE and found and start - found[-1][1] < 0.001:
            found[-1] = found[-1][0], end
        elif value > ACTIVE:
            found.append((start, end))
    return found


def ledger(name: str, cause: str) -> float:
    rows_ = judged(name).report["ledger"]
    return float(sum(row["device_seconds"] for row in rows_ if row["cause"] == cause))


@pytest.mark.parametrize(
    ("name", "window"), [("update_freq_v100", 0.167), ("5050_rtx3090", 0.2), ("transient_rtx3090", 0.2)]
)
def test_the_window_is_told_as_measured(name: str, window: float) -> None:
    info = judged(name).kept.told[-1]
    assert info.window_measured
    assert info.window == pytest.approx(window, abs=0.002)
    assert f"Resolution {round(window * 1000)} ms (measured)" in info.says


def test_50_ms_gaps_after_50_ms_of_work_are_a_plateau_and_no_valley() -> None:
    name = "5050_rtx3090"
    times = same_hour(kernels(name), rows(name)[0].t)
    first, last = stream_time(name, times[0][0]), stream_time(name, times[-1][1])
    (plateau,) = judged(name).report["plateaus"]
    assert plateau["start_s"] == pytest.approx(first, abs=0.2 + LAG)
    assert plateau["end_s"] == pytest.approx(last, abs=0.2 + LAG)
    steady = judged(name).kept.busy.value[10:40]
    assert {round(100 * value) for value in steady.tolist()} == {49, 50}
    true = boxcar.overlap(times, times[0][0], times[-1][1]) / (times[-1][1] - times[0][0])
    assert plateau["busy_ratio"] == pytest.approx(0.50, abs=0.02)
    assert plateau["busy_ratio"] == pytest.approx(true, abs=0.005)
    # What is told as a valley is the real end of the work: the program slept for its last 3 s.
    (valley,) = judged(name).report["valleys"]
    assert valley["start_s"] == pytest.approx(last, abs=0.2 + LAG)
    assert valley["end_s"] is None


def test_a_20_ms_square_wave_is_one_plateau_and_no_valley_in_200_s() -> None:
    name = "update_freq_v100"
    (span,) = active(name)
    assert span[1] - span[0] > 195
    (valley,) = judged(name).report["valleys"]
    assert valley["start_s"] == pytest.approx(span[1], abs=0.2)
    assert valley["end_s"] is None
    true = sum(one.percent for one in built(name).windows) / 100 * built(name).period
    rounding = 0.005 * (span[1] - span[0])
    # Its readings scatter from 46 to 52 %, as the wave beats with the window.
    (plateau,) = judged(name).report["plateaus"]
    assert plateau["start_s"] == pytest.approx(span[0], abs=2 * built(name).period)
    assert plateau["end_s"] == pytest.approx(span[1], abs=2 * built(name).period)
    assert plateau["busy_ratio"] == pytest.approx(true / (span[1] - span[0]), abs=0.005)
    assert judged(name).report["dips"] == []
    assert ledger(name, "busy") == pytest.approx(true, abs=rounding)
    assert ledger(name, "spread_idle") == pytest.approx(span[1] - span[0] - true, abs=rounding)


@pytest.mark.parametrize("name", ["transient_rtx3090", "transient_rtx4090"])
def test_a_burst_has_one_rising_and_one_falling_edge(name: str) -> None:
    window = built(name).period
    (burst,) = active(name)
    assert burst[1] - burst[0] == pytest.approx(5.97, abs=window)
    report = judged(name).report
    (valley,) = report["valleys"]
    assert valley["start_s"] == pytest.approx(burst[1], abs=window)
    assert (valley["kind"], valley["end_s"]) == ("utilisation", None)
    assert report["plateaus"] == []
    # All readings of work, and none of the blips, are that burst.
    assert ledger(name, "busy") == pytest.approx(5.97, abs=window)
    assert ledger(name, "idle_before_work") == pytest.approx(burst[0], abs=window)


@pytest.mark.parametrize("name", NAMES)
def test_the_blip_at_attach_is_really_there_and_is_no_work(name: str) -> None:
    values = [round(100 * value) for value in judged(name).kept.busy.value.tolist()]
    begun = next(index for index, value in enumerate(values) if value > 100 * ACTIVE)
    assert sorted(set(values[:begun])) in ([0, 1], [0, 2])
    report = judged(name).report
    told = [item["start_s"] for item in (*report["valleys"], *report["plateaus"])]
    assert min(told) > (begun - 1) * built(name).period


@pytest.mark.parametrize("name", NAMES)
def test_no_valley_without_idle_readings(name: str) -> None:
    """Power moves in all of them (from 127 to 303 W within the RTX 3090's burst); it never makes a valley."""
    kept, report = judged(name).kept, judged(name).report
    (power,) = kept.timeline.ids("device.power")
    low, high = kept.timeline.extremes(power, 0.0, 1e6) or (0.0, 0.0)
    assert high > 1.5 * low
    for valley in report["valleys"]:
        busy = kept.timeline.mean(kept.timeline.ids("device.busy")[0], valley["start_s"], valley["end_s"] or 1e6)
        assert busy is not None
        assert busy < ACTIVE


def test_power_that_beats_with_the_load_is_no_valley() -> None:
    """An A100 integrates 25 ms of each 100: with 52 ms of work in 104 its power swings, and utilisation is flat."""
    device = {"intervals": [(0, 0.052)], "repeat_s": 0.104, "watts": (60, 185), "power_ms": (100, 25)}
    (stream,) = streams(60.0, device)
    found = judge(stream)
    timeline = found.kept.timeline
    low, high = timeline.extremes(timeline.ids("device.power")[0], 0.0, 60.0) or (0.0, 0.0)
    assert low < 65
    assert high > 180
    assert found.report["valleys"] == []
    # Windows of 200 ms read 48 or 52 % for six in a row: the load beats with them.
    assert {round(100 * value) for value in found.kept.busy.value.tolist()} == {48, 50, 52}
    (plateau,) = found.report["plateaus"]
    assert (plateau["start_s"], plateau["end_s"]) == pytest.approx((0.0, 60.0), abs=0.5)
    assert plateau["busy_ratio"] == pytest.approx(0.5, abs=0.005)
    assert found.report["dips"] == []
    (spread,) = [row["share_ratio"] for row in found.report["ledger"] if row["cause"] == "spread_idle"]
    assert spread == pytest.approx(0.5, abs=0.02)
