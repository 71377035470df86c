"""The fast driver's stacks are named as what the simulation says that its threads did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.frames import stacks_of
from gaptop.lab.fast.machine import Kind
from gaptop.lab.fast.view import Dialect, View
from gaptop.lab.fast.waits import HELD, SPIN, WAIT
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Frames, Spans, Tick, Watermark
from gaptop_collectors.host.activities import load_activities
from gaptop_collectors.signals import ACTIVITIES

from .lab_fast import made, sources

MAP = load_activities()
OTHERWISE = {WAIT: {"idle", "await_requests"}, HELD: {"poll"}, SPIN: {"poll"}, "idle": {"idle", "await_requests"}}
"""The simulation's own words; an engine that rests holds no request."""
WORK: dict[Kind, tuple[str, ...]] = {
    "engine": (
        *("schedule", "prepare_batch", "launch", "sample", "device_sync", "copy", "grammar", "log", "compile", "load"),
        *("kv_transfer", "collective", "multimodal", "other", "poll", HELD, "idle", WAIT),
    ),
    "split_engine": ("schedule", "worker_wait", "grammar", "log", "serialize", "copy", "load", HELD, "idle", WAIT),
    "worker": (
        *("prepare_batch", "launch", "sample", "device_sync", "collective", "copy", "compile", "load", "log"),
        *("kv_transfer", "serialize", "poll", SPIN, "idle", WAIT),
    ),
    "front": ("detokenize", "serialize", "http", "log", "tokenize", "multimodal", "idle", WAIT),
    "pool": ("tokenize", "multimodal", "idle", WAIT),
    "input": (WAIT,),
    "output": (WAIT,),
    "monitor": (WAIT,),
}


@pytest.mark.parametrize("dialect", ["vllm", "vllm-0.8"])
@pytest.mark.parametrize(("kind", "phase"), [(kind, phase) for kind, phases in WORK.items() for phase in phases])
def test_each_phase_is_recognised(dialect: Dialect, kind: Kind, phase: str) -> None:
    assert phase in (*ACTIVITIES, WAIT, HELD, SPIN)
    found = {MAP.classify(stack) for stack in stacks_of(kind, phase, dialect, False)}
    assert found <= OTHERWISE.get(phase, {phase}), found
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["engine", "worker", "front", "pool"])
def test_a_collection_shows_as_whatever_allocated_or_as_itself(kind: Kind) -> None:
    """Only where the server was started so does Python call back, and a frame of the collector stands on the stack."""
    plain = {MAP.classify(stack) for stack in stacks_of(kind, "gc", "vllm", False)}
    called = {MAP.classify(stack) for stack in stacks_of(kind, "gc", "vllm", True)}
    assert "gc" not in plain
    assert plain <= {"schedule", "prepare_batch", "detokenize", "tokenize"}
    assert called == {"gc"}


def test_what_no_such_thread_does_is_refused() -> None:
    with pytest.raises(ValueError, match="no pool thread is known to do 'schedule'"):
        stacks_of("pool", "schedule", "vllm", False)


def shares(name: str) -> dict[str, float]:
    """What the engine's main thread was seen to do, in seconds by activity."""
    lines = made(name, 31.0)
    names = {
        int(number): MAP.classify([tuple(frame) for frame in stack])
        for line in lines
        if isinstance(line, Frames)
        for number, stack in line.stacks.items()
    }
    took: dict[str, float] = {}
    for line in lines:
        if isinstance(line, Spans) and line.src == "threads/4180":
            for tid, start, end, stack in zip(line.tid, line.start, line.end, line.stack, strict=True):
                if tid == 4180:
                    took[names[stack]] = took.get(names[stack], 0.0) + end - start
    return took


def test_shares_are_those_of_the_truth() -> None:
    """Three stalls of 1.2 s and 120 to 200 us of scheduling a step: 50 samples a second see the former well."""
    took = shares("host_schedule")
    assert 3.2 < took["schedule"] < 4.6
    assert took["device_sync"] > 0.7 * sum(took.values())


def test_an_engine_that_may_admit_nobody_tries_again_and_one_without_requests_sleeps() -> None:
    """Three holds of 2.6 s, of which the running requests take the first half; three silences of 2.5 s and the last."""
    held, silent = shares("admission_stall"), shares("no_demand")
    assert 3.0 < held["poll"] < 6.0
    assert held.get("await_requests", 0.0) < 0.5
    assert 8.0 < silent["await_requests"] < 11.0
    assert silent.get("poll", 0.0) < 0.5


def test_states_hold_from_sample_to_sample_without_a_gap() -> None:
    lines = made("steady", 21.0)
    spans = [line for line in lines if isinstance(line, Spans) and line.src == "threads/4180"]
    assert len(spans) >= 5
    for line in spans:
        rows = sorted(zip(line.tid, line.start, line.end, strict=True))
        for tid in set(line.tid):
            own = [row for row in rows if row[0] == tid]
            assert own[0][1] == line.covered[0]
            assert own[-1][2] == line.covered[1]
            assert all(after[1] == before[2] for before, after in zip(own, own[1:], strict=False))
    for before, after in zip(spans, spans[1:], strict=False):
        assert before.covered[1] == after.covered[0]


def test_a_window_comes_late_and_its_watermark_with_it() -> None:
    """Until then the time is pending: nothing of it was said."""
    now, told, most = 0.0, 0.0, 0.0
    late = []
    for line in made("steady", 21.0):
        if isinstance(line, Tick):
            now = line.t
            most = max(most, now - told)
        elif isinstance(line, Watermark) and line.src == "threads/4180":
            told = line.t
            late.append(now - told)
    assert 4.2 < most < 5.2
    assert min(late[:-1]) > 0.0  # the tick before its delivery is already later than its end
    assert max(late) < 0.7


def test_ranks_have_processes_of_their_own() -> None:
    found = sources(made("straggler", 12.0))
    workers = [line for key, line in found.items() if key.startswith("threads/") and line.entity["role"] == "worker"]
    assert len(workers) > 1
    assert sorted(str(line.entity["name"]) for line in workers)[0] == "VLLM::Worker_TP0"
    devices = [line for line in found.values() if line.kind == "device"]
    assert [line.entity["pids"] for line in devices] == [[line.entity["pid"]] for line in workers]


@pytest.mark.parametrize("dialect", ["vllm", "vllm-0.8", "llamacpp"])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("ranks", "apart"), [(1, False), (2, False), (1, True)])
def test_every_thread_of_the_simulation_has_a_place(dialect: Dialect, single: bool, ranks: int, apart: bool) -> None:
    base = SCENARIOS["steady"]
    config = replace(base.engine, tensor_parallel_size=ranks, disaggregated=apart, single_process=single)
    lines = tuple(Fast(replace(base, engine=config), 1, 3.0, View(dialect=dialect)).lines())
    devices = [line for line in sources(lines).values() if line.kind == "device"]
    assert len(devices) == (2 if apart else ranks)
    server = next(line for line in sources(lines).values() if line.kind == "server")
    assert {pid for line in devices for pid in line.entity["pids"]} <= set(server.entity["pids"])
