"""The stand-in library itself, through the unmodified binding: what it makes of what a GPU did."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.fakes.nvml import build
from tests.fakes.nvml.ask import answer

RING = """
def ring(kind=0):
    _, got = nv.nvmlDeviceGetSamples(gpu, nv.NVML_GPU_UTILIZATION_SAMPLES + kind, 0)
    return [(one.timeStamp, one.sampleValue.uiVal) for one in got]
"""


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def ring(seconds: float, device: dict[str, Any], **config: Any) -> list[tuple[float, int]]:
    """(Seconds since window 0 began, per cent) of each entry of its ring at a time."""
    found = answer(f"{RING}\nat({seconds})\nout = ring()", device, clock="monotonic", **config)
    return [(stamp / 1e6 - 1000, value) for stamp, value in found]


def spans_of(count: int, seed: int) -> list[tuple[float, float]]:
    """Spans of work with gaps of 300 ms, one in about 2 s."""
    chance = random.Random(seed)
    edges = [0.0]
    for _ in range(count):
        edges.append(edges[-1] + 1.7 + chance.uniform(-0.2, 0.2))
        edges.append(edges[-1] + 0.3)
    return [(edges[2 * i], edges[2 * i + 1]) for i in range(count)]


def test_a_window_is_the_share_of_its_time_that_was_busy() -> None:
    entries = ring(1.05, {"intervals": [(0.05, 0.3), (0.31, 0.35), (0.6, 9)], "delay_ms": 10})
    assert [at for at, _ in entries] == pytest.approx([0.21, 0.41, 0.61, 0.81, 1.01])
    assert [value for _, value in entries] == [75, 70, 0, 100, 100]  # the second: 100 + 40 of 200 ms


@pytest.mark.parametrize(("rounding", "seen"), [("nearest", [38, 0, 100]), ("down", [37, 0, 99])])
def test_rounding(rounding: str, seen: list[int]) -> None:
    spans = [(0.0, 0.0752), (0.2, 0.2008), (0.4, 0.5992)]
    device: dict[str, Any] = {"intervals": spans, "rounding": rounding}
    assert [value for _, value in ring(0.7, device)] == seen
    device = {"series": [(0.29, 60), (0.57, 60), (0.999, 60)], "rounding": rounding}
    assert [value for _, value in ring(0.7, device)] == [29, 57, seen[2]]


def test_both_roundings_go_through_the_other_answers_too() -> None:
    asked = "at(0.3)\nrates = nv.nvmlDeviceGetUtilizationRates(gpu)\nout = [rates.gpu, rates.memory]"
    device = {"intervals": [(0, 0.1318)], "memory_busy": 0.5}
    assert answer(asked, device) == [66, 33]
    assert answer(asked, {**device, "rounding": "down"}) == [65, 32]


def test_work_that_repeats() -> None:
    entries = ring(14, {"intervals": [(0, 0.05)], "repeat_s": 0.1, "window_ms": 167})
    assert len(entries) == 72
    assert min(value for _, value in entries) == 40  # 50 ms and 17 of the 67 that are left: 67 of 167
    assert max(value for _, value in entries) == 60
    assert sum(value for _, value in entries) / 72 == pytest.approx(50, abs=0.5)


def test_windows_off_their_grid_still_hold_all_time_once() -> None:
    spans = spans_of(8, seed=4)
    entries = ring(14, {"intervals": spans, "jitter_ms": 8})
    steps = [later - earlier for (earlier, _), (later, _) in pairwise(entries)]
    assert min(steps) < 0.195
    assert max(steps) > 0.205
    assert max(abs(at - 0.01 - (i + 1) * 0.2) for i, (at, _) in enumerate(entries)) <= 0.008
    busy = sum(step * value / 100 for step, (_, value) in zip(steps, entries[1:], strict=True))
    edges = entries[0][0] - 0.01, entries[-1][0] - 0.01
    truth = sum(max(0.0, min(end, edges[1]) - max(start, edges[0])) for start, end in spans)
    assert busy == pytest.approx(truth, abs=72 * 0.005 * 0.2)


def test_each_window_is_out_from_its_stamp_on() -> None:
    text = f"""{RING}
newest = []
for step in range(1, 400):
    at(0.2575 + step / 100)
    newest.append([time.monotonic_ns() // 1000, max(ring())[0]])
out = newest, [stamp for stamp, _ in ring()]
"""
    for jitter_ms in (0, 8):
        newest, stamps = answer(text, {"intervals": [(0, 9)], "jitter_ms": jitter_ms}, clock="monotonic")
        assert [seen for _, seen in newest] == [max(one for one in stamps if one <= now) for now, _ in newest]


def test_thousands_of_spans_and_windows_fit() -> None:
    spans = spans_of(6000, seed=1)
    assert len(build.environment({"devices": [{"intervals": spans}]})["GAPTOP_FAKE_NVML"]) < 100_000
    end = spans[-1][1]
    entries = ring(end, {"intervals": spans})
    start, stop = entries[0][0] - 0.21, entries[-1][0] - 0.01
    truth = sum(max(0.0, min(b, stop) - max(a, start)) for a, b in spans)
    assert sum(value for _, value in entries) * 0.002 == pytest.approx(truth, abs=72 * 0.001)
    series = [(index % 101 / 100, 60 + index) for index in range(5000)]
    entries = ring(4500 * 0.167 + 0.02, {"series": series, "window_ms": 167})
    assert [value for _, value in entries] == [index % 101 for index in range(4500 - 72, 4500)]


POWER = """
def power():
    usage = nv.nvmlDeviceGetPowerUsage(gpu)
    instant, average, energy = nv.nvmlDeviceGetFieldValues(gpu, [186, 185, 191])
    return [usage / 1e3, instant.value.uiVal / 1e3, average.value.uiVal / 1e3, energy.value.ullVal / 1e3]
"""


def test_power_follows_the_work() -> None:
    device = {"intervals": [(0, 1.0), (1.5, 3)], "watts": (50, 450)}
    text = f"{POWER}\nout = []\nfor t in (1.0, 1.45, 2.5):\n    at(t)\n    out.append(power())"
    first, second, third = answer(text, device)
    assert first == [450, 450, 450, pytest.approx(0.8 * 450)]  # four windows are out: 10 ms after their end
    assert second == [50, 50, pytest.approx(0.55 * 450 + 0.45 * 50), pytest.approx(450 + 0.4 * 50)]
    assert third[:3] == [450, 450, 450]
    assert third[3] == pytest.approx(450 + 25 + 0.9 * 450)
    usage = answer(f"{POWER}\nat(1.45)\nout = power()", {**device, "usage_average": True})
    assert usage == [pytest.approx(0.55 * 450 + 0.45 * 50), 50, *second[2:]]


def test_instant_power_of_a_short_window_beats_against_steady_work() -> None:
    """As on an A100: work of 52 ms in 104, of which 25 ms are seen each 100 ms."""
    device = {"intervals": [(0, 0.052)], "repeat_s": 0.104, "watts": (60, 180), "power_ms": (100, 25)}
    text = f"{POWER}{RING}\nout = []\nfor k in range(60):\n    at(1 + k / 10)\n    out.append(power()[1])\n"
    watts, busy = answer(f"{text}out = out, [value for _, value in ring()]", device)
    assert min(watts) == 60
    assert max(watts) == 180
    assert all(46 <= value <= 54 for value in busy)


def test_power_and_energy_of_a_series_are_its_own() -> None:
    device = {"series": [(1.0, 300), (0.5, 200)], "loop": True}
    first, second = answer(f"{POWER}\nat(0.3)\nout = [power()]\nat(2.05)\nout.append(power())", device)
    assert first == [300, 300, pytest.approx(266.667), 60]
    assert second == [200, 200, pytest.approx(250, abs=6), 500]


def test_rates_that_are_an_old_copy() -> None:
    read = "out.append(nv.nvmlDeviceGetUtilizationRates(gpu).gpu)"
    text = f"out = []\nfor t in range(20):\n    at(t / 10 + 0.05)\n    {read}"
    series = [(index / 10, 60) for index in range(1, 11)]
    fresh, stale = answer(text, {"series": series}), answer(text, {"series": series, "rates_ms": 500})
    assert len(set(fresh)) == 10
    assert set(stale) == {0, 20, 40, 70}


def test_a_ring_that_stands_still_while_the_gpu_is_idle() -> None:
    entries = ring(4, {"intervals": [(0, 1.0), (3.0, 9)], "dry_idle": 0.6})
    assert [round(at - 0.01, 3) for at, _ in entries] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 3.2, 3.4, 3.6, 3.8]
    assert answer("at(1)\nout = code(nv.nvmlDeviceGetSamples, gpu, 1, 0)", {"dry_idle": 0}) == 6
