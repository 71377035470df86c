"""Stacks that no rule knows, reads that fail, clocks that are off: the fast driver shows what the view says of them."""

from __future__ import annotations

from random import Random

import pytest

from gaptop.lab.core.events import HostSpan
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.frames import strange_of, within
from gaptop.lab.fast.machine import Kind, ThreadOf
from gaptop.lab.fast.sampled import Interned, Sampled, Window
from gaptop.lab.fast.strange import Strange
from gaptop.lab.fast.threads import Did, ThreadLog
from gaptop.lab.fast.view import View
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Frames, Line, Source, Spans
from gaptop_collectors.host.activities import load_activities

from .lab_fast import made

MAP = load_activities()
ENGINE = 4180


def activities(lines: tuple[Line, ...]) -> dict[int, str]:
    return {
        int(number): MAP.classify([(str(frame[0]), str(frame[1]), 1) for frame in stack])
        for line in lines
        if isinstance(line, Frames)
        for number, stack in line.stacks.items()
    }


def engine_took(lines: tuple[Line, ...]) -> dict[str, float]:
    """Seconds of the engine's main thread by activity."""
    names = activities(lines)
    took: dict[str, float] = {}
    for line in lines:
        if isinstance(line, Spans) and line.src == f"threads/{ENGINE}":
            for tid, start, end, stack in zip(line.tid, line.start, line.end, line.stack, strict=True):
                if tid == ENGINE:
                    took[names[stack]] = took.get(names[stack], 0.0) + end - start
    return took


def shares(share: float, seeds: int) -> list[float]:
    """Of the engine's time at work in code that no rule knows, by seed."""
    found = []
    for seed in range(seeds):
        took = engine_took(made("steady", 62.0, View(strange=share), seed))
        found.append(took.get("other", 0.0) / sum(took.values()))
    return found


def test_the_share_of_strange_stacks_is_what_was_drawn() -> None:
    """No more than that, and most of it where the phases that hold such code last long enough."""
    found = shares(0.08, 6)
    assert max(found) < 0.1
    assert sorted(found)[3] > 0.06
    assert all("other" not in engine_took(made("steady", 62.0, View(), seed)) for seed in range(2))


def test_strange_code_comes_in_runs_and_in_some_phases() -> None:
    """A phase of two seconds is strange for a good part of it, not now and then for one sample."""
    strange = [Strange(0.1, Random(seed)) for seed in range(40)]
    longest = []
    for item in strange:
        for sample in range(3000):
            item.sampled(Did(sample * 0.02, sample * 0.02 + 0.02, "launch", ""), sample * 0.02)
        span = Did(60.0, 62.0, "schedule", "")
        seen = [item.sampled(span, 60.0 + sample * 0.02) for sample in range(100)]
        longest.append(sum(seen))
    assert longest.count(0) > 8
    assert sum(number > 10 for number in longest) > 8


@pytest.mark.parametrize("kind", ["engine", "split_engine", "worker", "front", "pool"])
def test_no_rule_knows_strange_code(kind: Kind) -> None:
    """What an event loop or a pool calls is not asked for here: that is the rules' own business."""
    assert MAP.classify(strange_of(kind)[0]) == "other"


@pytest.mark.parametrize(
    ("kind", "phase"), [("engine", "schedule"), ("engine", "launch"), ("worker", "sample"), ("split_engine", "grammar")]
)
def test_strange_code_under_known_frames_is_named_by_its_caller(kind: Kind, phase: str) -> None:
    assert {MAP.classify(stack) for stack in within(kind, phase, "vllm")} == {phase}


def window(view: View, rate: int = 50, seconds: float = 200.0) -> tuple[Window, float]:
    """Of one engine thread that turns from one thing to another each 100 ms, and the rows' time in all."""
    log = ThreadLog(ThreadOf(ENGINE, "MainThread", "vllm", "engine", "engine"), 0.0)
    for number in range(round(seconds * 10)):
        log.add(HostSpan(number / 10, number / 10 + 0.1, "engine", ("schedule", "launch")[number % 2], False))
    sampled = Sampled([log], (), view, Interned(), rate, Random(3))
    found = sampled.window(0.0, seconds, 0.0, 0.0, seconds)
    return found, sum(end - start for start, _, end, _ in found.rows)


def test_reads_that_fail_leave_gaps_or_hold_what_was_seen() -> None:
    """Half of 3 % leave the thread without a frame for a mean interval, the other half is no sample at all."""
    whole, seen = window(View())
    failed, less = window(View(failed=0.03))
    assert whole.errors == 0.0
    assert seen == pytest.approx(200.0)
    assert failed.errors == pytest.approx(0.015, abs=0.005)
    assert 1 - less / seen == pytest.approx(0.015, abs=0.005)
    assert all(before[2] <= after[0] for before, after in zip(failed.rows, failed.rows[1:], strict=False))


def sources_of(lines: tuple[Line, ...]) -> list[Source]:
    return [line for line in lines if isinstance(line, Source) and line.id == f"threads/{ENGINE}"]


def edges(error: float, seed: int) -> tuple[list[float], float]:
    """Where windows of stacks end, and the clock error of the source's description."""
    lines = made("steady", 31.0, View(clock_error_s=error), seed)
    ends = [line.covered[1] for line in lines if isinstance(line, Spans) and line.src == f"threads/{ENGINE}"]
    return ends, sources_of(lines)[-1].error


def test_a_window_is_off_by_no_more_than_its_source_says() -> None:
    off = []
    for seed in range(4):
        true, _ = edges(0.0, seed)
        told, error = edges(0.05, seed)
        off += [after - before for before, after in zip(true, told, strict=True)]
        assert error >= max(abs(item) for item in off) > 0.0
    assert len(set(off)) > 20
    assert max(off) > 0.02
    assert min(off) < 0.0


def test_the_same_seed_gives_the_same_strange_stream() -> None:
    view = View(strange=0.1, failed=0.03, clock_error_s=0.03)
    first, again, other = (tuple(Fast(SCENARIOS["steady"], seed, 12.0, view).lines()) for seed in (7, 7, 8))
    assert first == again
    assert first != other
