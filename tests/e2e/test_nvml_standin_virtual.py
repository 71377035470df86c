"""The stand-in library in virtual time: minutes of a GPU's life through the real binding, collector and analysis."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gaptop.recording.lines import Tick
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from tests.fakes.nvml import build, virtual
from tests.fakes.nvml.ask import answer
from tests.fakes.nvml.child import Line, of, readings
from tests.fakes.nvml.clocks import BEGIN_NS

GPU = "nvml/GPU-fake-0"


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def work(seconds: float, seed: int) -> list[tuple[float, float]]:
    """Spans of work, with a gap of 300 ms at a random time of each 2 s."""
    chance = random.Random(seed)
    gaps = [2 * index + chance.uniform(0, 1.7) for index in range(1, int(seconds / 2))]
    return [*zip([0.0, *(gap + 0.3 for gap in gaps)], [*gaps, seconds], strict=True)]


def busy_in(spans: list[tuple[float, float]], start: float, end: float) -> float:
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in spans)


def test_each_window_of_five_minutes_is_read_once_and_is_right() -> None:
    spans = work(300, seed=5)
    lines = virtual.run(300, {"intervals": spans, "rounding": "down"}, jitter=0.2, seed=1)
    seen = readings(lines, "device.busy")
    assert len(seen) >= 300 / 0.2 - 5
    assert {later - earlier for (earlier, _), (later, _) in pairwise(seen)} == {200_000_000}
    for time_ns, value in seen:
        end = (time_ns - BEGIN_NS) / 1e9 - 0.01
        assert value == int(busy_in(spans, end - 0.2, end) / 0.002 + 1e-6) / 100
    assert not of(lines, "Hole")


def test_the_same_run_again_is_the_same() -> None:
    device = {"intervals": work(20, seed=2), "jitter_ms": 3}

    def run(seed: int) -> list[Line]:
        return virtual.run(20, device, jitter=0.1, seed=seed)

    first, again, other = run(7), run(7), run(8)
    assert first == again
    assert first != other
    sampled = [line["time_ns"] for line in first if line["is"] == "Sampled"]
    assert len({later - earlier for earlier, later in pairwise(sampled)}) > 10
    assert readings(first, "device.busy") == readings(other, "device.busy")


def test_what_was_before_the_opening_is_in_the_ring() -> None:
    def first(begin: float) -> list[int]:
        lines = virtual.run(3, {"series": [(0.5, 100)]}, begin=begin)
        return [time_ns for time_ns, _ in readings(lines, "device.busy")]

    assert first(0)[0] == BEGIN_NS + 210_000_000
    assert of(virtual.run(0, {"series": [(0.5, 100)]}, begin=20), "SourceInfo")[-1]["window_measured"]


def test_a_stream_of_it_has_the_valley_where_it_was() -> None:
    lines = virtual.run(60, {"intervals": [(0, 40), (43, 100)], "watts": (60, 300)}, begin=15, jitter=0.05)
    timeline = Timeline(None)
    analyst = Analyst(timeline)
    ticks = []
    for line in virtual.stream(lines):
        timeline.apply(line)
        analyst.apply(line)
        if isinstance(line, Tick):
            ticks.append(line.t)
    (valley,) = analyst.finish().valleys
    assert valley.start_s == pytest.approx(25, abs=0.2)
    assert valley.end_s == pytest.approx(28, abs=0.2)
    assert valley.idle_s == pytest.approx(3, abs=0.01)
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(60, abs=0.5)
    assert {round(later - earlier, 6) for earlier, later in pairwise(ticks)} == {0.25}


def test_a_call_that_hangs_takes_virtual_time() -> None:
    device = {"series": [(0.5, 100), (0.7, 100)], "loop": True, "slow": ("nvmlDeviceGetTemperature", 5000, 200, 1)}
    lines = virtual.run(30, device)
    (note,) = (line for line in lines if line["is"] == "Note" and line["what"] == "our_slow_call")
    assert note["data"]["seconds"] == pytest.approx(5)
    sampled = [line["time_ns"] for line in lines if line["is"] == "Sampled"]
    assert max(later - earlier for earlier, later in pairwise(sampled)) >= 5e9
    seen = [time_ns for time_ns, _ in readings(lines, "device.busy")]
    assert {later - earlier for earlier, later in pairwise(seen)} == {200_000_000}
    ticks = [line.t for line in virtual.stream(lines) if isinstance(line, Tick)]
    assert ticks == [index / 4 for index in range(len(ticks))]
    assert ticks[-1] >= sampled[-1] / 1e9 - 1000


@pytest.mark.parametrize("clock", ["epoch", "boot", "monotonic"])
def test_a_wall_clock_that_is_set_while_we_look(clock: str) -> None:
    lines = virtual.run(12, {"series": [(0.5, 100), (0.7, 100)], "loop": True}, wall_steps={5.1: 3600}, clock=clock)
    seen = readings(lines, "device.busy")
    assert len(seen) >= 55
    assert all((time_ns - BEGIN_NS - 10_000_000) % 200_000_000 < 1_000_000 for time_ns, _ in seen)


def test_the_wall_clock_alone_is_set() -> None:
    text = """
clocks = Clocks({5.0: 3600.0})
out = []
for t in (4, 6):
    at(t)
    out.append([time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), time.perf_counter_ns()])
"""
    before, after = answer(text, {})
    assert [later - earlier for earlier, later in zip(before, after, strict=True)] == [3602, 2, 2, 2_000_000_000]


def test_an_end_with_a_sentence_ends_the_run(tmp_path: Path) -> None:
    device: dict[str, Any] = {"series": [(0.5, 100)], "fail": (15, 2.0, 0)}
    lines = virtual.run(30, device, calls=tmp_path / "calls")
    assert lines[-1]["is"] == "CollectorError"
    assert [*virtual.stream(lines)]
    counts = build.calls_in(tmp_path / "calls")
    assert counts["nvmlDeviceGetSamples"] > 8  # two rings, four times a second, twice each
    (refused,) = virtual.run(30, {"profile": "driver_replaced"})
    assert refused["state"] == "failing"


def test_a_child_that_breaks_is_told() -> None:
    with pytest.raises(RuntimeError, match="unknown key"):
        virtual.run(1, {"no_such_key": 1})


def test_the_state_folder_is_passed_on(tmp_path: Path) -> None:
    lines = virtual.run(20, {"series": [(0.5, 100), (0.7, 100)], "loop": True, "window_ms": 167}, state=tmp_path)
    assert of(lines, "SourceInfo")[-1]["window_measured"]
    assert [*tmp_path.iterdir()]
