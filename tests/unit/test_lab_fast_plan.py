"""The fast driver samples as the real budget would let py-spy: rates, windows, processes left out, rests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.machine import crowded, processes
from gaptop.lab.fast.plan import plan_of, rests_of
from gaptop.lab.fast.view import PySpyCosts, View
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Hole, Line, Source, Spans, Watermark
from gaptop_collectors.host.pyspy_budget import BUDGET
from gaptop_collectors.host.pyspy_source import LEFT_OUT, RESTS

FRONT, ENGINE = "threads/4100", "threads/4180"
CHEAP = View(pyspy=PySpyCosts(30e-6))
MANY = View(pyspy=PySpyCosts(100e-6, idle_threads=100))
SICK = View(pyspy=PySpyCosts(900e-6, 0.3, 0.3, idle_threads=100))
"""One look at all threads takes a tenth of a second: far more than the budget has."""


def lines_of(view: View, seconds: float, ranks: int = 1) -> tuple[Line, ...]:
    base = SCENARIOS["steady"]
    config = replace(base.engine, tensor_parallel_size=ranks)
    return tuple(Fast(replace(base, engine=config), 1, seconds, view).lines())


def told(lines: tuple[Line, ...], source: str) -> list[Source]:
    return [line for line in lines if isinstance(line, Source) and line.id == source]


def windows(lines: tuple[Line, ...], source: str) -> list[tuple[float, float]]:
    return [line.covered for line in lines if isinstance(line, Spans) and line.src == source]


def holes(lines: tuple[Line, ...], source: str) -> list[Hole]:
    return [line for line in lines if isinstance(line, Hole) and line.src == source]


def test_few_threads_are_watched_fast_and_many_slowly_or_not_at_all() -> None:
    config = SCENARIOS["steady"].engine
    few = plan_of(processes("vllm", config), CHEAP)
    many = plan_of(crowded(processes("vllm", config), 100), MANY)
    assert few.rates[4180] >= 40
    assert few.rates[4100] >= 5
    assert many.rates[4180] <= 8
    assert 4100 not in many.rates
    assert many.share <= BUDGET


def test_idle_threads_are_in_the_stream_and_spread_over_the_processes() -> None:
    found = crowded(processes("vllm", replace(SCENARIOS["steady"].engine, tensor_parallel_size=2)), 51)
    assert sum(len(process.idle) for process in found) == 51
    assert [len(process.idle) for process in found] == [20, 10, 10, 11]
    tids = {tid for line in lines_of(MANY, 12.0) if isinstance(line, Spans) and line.src == ENGINE for tid in line.tid}
    assert len(tids) == 63


def test_a_process_that_is_left_out_is_paused_and_its_time_is_a_hole() -> None:
    lines = lines_of(MANY, 12.0)
    assert told(lines, FRONT)[0].paused
    assert windows(lines, FRONT) == []
    found = holes(lines, FRONT)
    assert {hole.reason for hole in found} == {LEFT_OUT}
    assert all(after.start == before.end for before, after in zip(found, found[1:], strict=False))
    assert found[-1].end > 11.0
    assert windows(lines, ENGINE)
    assert not told(lines, ENGINE)[-1].paused


def test_windows_grow_where_hand_overs_are_dear() -> None:
    dear = View(pyspy=PySpyCosts(30e-6, 0.06, 0.06))
    lines = lines_of(dear, 60.0, ranks=4)
    found = windows(lines, ENGINE)
    assert told(lines, ENGINE)[-1].period >= 20.0
    assert max(end - start for start, end in found) > 20.0
    usual = windows(lines_of(CHEAP, 30.0), ENGINE)
    assert max(end - start for start, end in usual) < 5.0


def test_processes_do_not_hand_over_at_one_moment() -> None:
    lines = lines_of(CHEAP, 30.0)
    pairs = [(engine, front) for engine in windows(lines, ENGINE) for front in windows(lines, FRONT)]
    assert min(abs(engine[1] - front[1]) for engine, front in pairs[:-1]) > 0.02


def test_where_one_look_a_second_is_too_dear_recorders_rest_and_say_so() -> None:
    lines = lines_of(SICK, 90.0)
    seen = sum(end - start for start, end in windows(lines, ENGINE))
    assert 4.0 < seen < 45.0
    found = [hole for hole in holes(lines, ENGINE) if hole.reason == RESTS]
    assert sum(hole.end - hole.start for hole in found) == pytest.approx(90.0 - 0.7 - seen, abs=3.0)
    said = [source.says for source in told(lines, ENGINE)]
    assert any(text.startswith(RESTS) for text in said)
    assert any("with pauses that keep it inside 4% of a core" in text for text in said)


def test_rests_keep_the_share_inside_the_budget() -> None:
    plan = plan_of(crowded(processes("vllm", SCENARIOS["steady"].engine), 100), SICK)
    assert plan.over
    rests = rests_of(plan, 600.0)
    watched = 600.0 - sum(end - start for start, end in rests)
    assert watched * plan.share / 600.0 < 1.3 * BUDGET
    assert rests_of(plan_of(processes("vllm", SCENARIOS["steady"].engine), CHEAP), 600.0) == ()


@pytest.mark.parametrize("view", [CHEAP, MANY, SICK])
def test_every_moment_is_seen_or_a_hole(view: View) -> None:
    """From the first window or hole to the watermark nothing is left open, and nothing is told twice."""
    lines = lines_of(view, 40.0)
    for source in (FRONT, ENGINE):
        parts = sorted([*windows(lines, source), *((hole.start, hole.end) for hole in holes(lines, source))])
        assert all(
            after[0] == pytest.approx(before[1], abs=1e-5) for before, after in zip(parts, parts[1:], strict=False)
        )
        marks = [line.t for line in lines if isinstance(line, Watermark) and line.src == source]
        assert marks == sorted(marks)
        assert marks[-1] == pytest.approx(parts[-1][1], abs=1e-5)
