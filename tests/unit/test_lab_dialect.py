"""What the live driver's threads really do has real stacks, and gaptop's own rules name each as what it plays."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import pytest

from gaptop.lab.core.events import HostSpan, StepDone
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.renderers.base import Renderer
from gaptop.lab.dialect.vllm.v1.engine.core import EngineCoreProc
from gaptop.lab.dialect.vllm.v1.engine.detokenizer import IncrementalDetokenizer
from gaptop.lab.dialect.vllm.v1.executor.multiproc_executor import WorkerProc
from gaptop.lab.live.plan import FollowingClock, LiveClock, Plan
from gaptop.lab.scenarios import SCENARIOS
from gaptop_collectors.host.activities import load_activities

ACTIVITIES = load_activities()
PLAYS = 0.08
"""Seconds of each phase."""

Stack = tuple[tuple[str, str, int], ...]


def stacks_while(work: Callable[[], None]) -> Counter[Stack]:
    """The stacks that a thread shows while it works, from its own first frame on."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    found: Counter[Stack] = Counter()
    while thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        stack = stack_of(frame)
        if any("/lab/dialect/" in file for _, file, _ in stack):
            found[stack] += 1
        time.sleep(0.002)
    return found


def stack_of(frame: FrameType | None) -> Stack:
    found = []
    while frame is not None:
        found.append((frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def named(found: Counter[Stack]) -> str:
    """The activity of most of them."""
    kinds: Counter[str] = Counter()
    for stack, count in found.items():
        kinds[ACTIVITIES.classify(stack)] += count
    return kinds.most_common(1)[0][0]


def until() -> int:
    return time.monotonic_ns() + int(PLAYS * 1e9)


def engine(*, captures: bool = False) -> EngineCoreProc:
    plan = Plan(Simulation(SCENARIOS["steady"], 1), LiveClock(time.monotonic_ns()))
    return EngineCoreProc(plan, lambda: None, captures=captures)


@pytest.mark.parametrize(
    "phase",
    [
        *("schedule", "grammar", "gc", "log", "device_sync", "worker_wait", "prepare_batch", "launch", "sample"),
        *("compile", "copy", "load", "kv_transfer"),
    ],
)
def test_the_engine_s_thread_is_seen_at_what_it_plays(phase: str) -> None:
    core = engine()
    begun = time.monotonic()
    assert named(stacks_while(lambda: core._process_engine_step(phase, until()))) == phase
    assert time.monotonic() - begun >= PLAYS


def test_a_captured_graph_is_told_from_a_compiled_kernel() -> None:
    core = engine(captures=True)
    found = stacks_while(lambda: core._process_engine_step("compile", until()))
    assert named(found) == "compile"
    assert any("capture_model" in function for stack in found for function, _, _ in stack)


@pytest.mark.parametrize("phase", ["tokenize", "multimodal"])
def test_a_tokeniser_s_thread_is_seen_at_what_it_plays(phase: str) -> None:
    renderer = Renderer()
    assert named(stacks_while(lambda: renderer.render_prompts(phase, until()))) == phase


def test_a_detokeniser_that_holds_the_interpreter_lets_no_other_thread_run() -> None:
    detokenizer = IncrementalDetokenizer(holds_interpreter=True)
    turns: list[float] = []
    stop = threading.Event()

    def take_turns() -> None:
        while not stop.is_set():
            turns.append(time.monotonic())

    thread = threading.Thread(target=take_turns, daemon=True)
    thread.start()
    begun = time.monotonic()
    detokenizer.update(0.2)
    ended = time.monotonic()
    stop.set()
    thread.join()
    met = [begun, *(turn for turn in turns if begun < turn < ended), ended]
    assert max(after - before for before, after in zip(met, met[1:], strict=False)) > 0.1


def test_what_one_held_call_took_too_long_the_next_ones_take_less() -> None:
    detokenizer = IncrementalDetokenizer(holds_interpreter=True)
    detokenizer._a_second *= 3  # as on a core that others want
    begun = time.monotonic()
    for _ in range(8):
        detokenizer.update(0.05)
    assert time.monotonic() - begun < 0.4 + 3 * 0.05 + 0.2


class Scripted(Plan):
    """A worker's plan of some phases, one after the other."""

    def __init__(self, phases: list[str]) -> None:
        super().__init__(Simulation(SCENARIOS["steady"], 1), FollowingClock(time.monotonic_ns()), "worker/0")
        self._phases = phases
        self._at = 0.0

    def next(self) -> HostSpan | StepDone:
        if not self._phases:
            raise StopIteration
        start, self._at = self._at, self._at + PLAYS
        return HostSpan(start, self._at, "worker/0", self._phases.pop(0), False)


@pytest.mark.parametrize("phase", ["prepare_batch", "launch", "device_sync", "sample", "collective", "compile", "idle"])
def test_a_worker_is_seen_at_what_it_plays(phase: str) -> None:
    worker = WorkerProc(Scripted([phase, phase]))

    def play() -> None:
        with suppress(StopIteration):
            worker.worker_busy_loop()

    found = stacks_while(play)
    assert named(found) == phase
    assert all(any("WorkerProc.worker_busy_loop" in function for function, _, _ in stack) for stack in found)


@pytest.mark.parametrize("name", ["straggler", "slow_collective"])
def test_each_rank_s_plan_holds_its_own_spans_only(name: str) -> None:
    for rank in (0, 1):
        plan = Plan(Simulation(SCENARIOS[name], 1), FollowingClock(time.monotonic_ns()), f"worker/{rank}")
        events = [plan.next() for _ in range(2000)]
        assert {event.thread for event in events if isinstance(event, HostSpan)} == {f"worker/{rank}"}
        assert all(isinstance(event, HostSpan) for event in events)
        ends = [event.end for event in events]
        assert ends == sorted(ends)
