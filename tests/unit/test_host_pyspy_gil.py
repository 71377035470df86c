"""GIL shares: ticks of ticks, 0 only for a thread that was looked at, and a hole for a window that was not whole."""

from __future__ import annotations

import json
import selectors
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import click
import pytest
from click.testing import CliRunner

from gaptop.cli.target import Target, probe_config, target_options
from gaptop.probe.assembly import plans
from gaptop.probe.config import parse
from gaptop_collectors.collector import Batch, CollectorError, Hole, Message, SourceInfo
from gaptop_collectors.host import pyspy_gil
from gaptop_collectors.host.pyspy_command import Launcher
from gaptop_collectors.host.pyspy_gil import RATE, WINDOW, GilShares
from gaptop_collectors.target import ServerProcess

ENGINE = ServerProcess(4242, "engine", "EngineCore", True, 1)
API = ServerProcess(4000, "api", "vllm", True, 1)
BODY = b"""thread (4242): MainThread;run (core.py:10);schedule (sched.py:7) 100
thread (4242): MainThread;run (core.py:10);schedule (sched.py:9) 99
thread (4250): a;b c;tokenize (tok.py:3) 50
"""
TICKS = RATE * WINDOW - 1


class FakeRecorder:
    made: ClassVar[list[FakeRecorder]] = []

    def __init__(
        self, launcher: Launcher, arguments: Sequence[str], rate: int, selector: selectors.BaseSelector
    ) -> None:
        self.arguments, self.rate, self.started_ns = arguments, rate, 0
        self.body, self.output, self.errors, self.code, self.stopped = b"", "", 0, 0, False
        self.ended = self.killed = False
        self.made.append(self)

    def poll(self) -> bool:
        return self.ended

    def kill(self) -> None:
        self.killed = True

    def abandon(self) -> None:
        self.killed = True


class Tree:
    def __init__(self, *processes: ServerProcess) -> None:
        self.processes = processes

    def current(self) -> Sequence[ServerProcess]:
        return self.processes

    def why_empty(self) -> str:
        return "" if self.processes else "The server has ended."


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    threads = {4242, 4250}
    FakeRecorder.made = []
    monkeypatch.setattr(pyspy_gil, "Recorder", FakeRecorder)
    monkeypatch.setattr(pyspy_gil, "living_threads", lambda pid: threads)
    monkeypatch.setattr("gaptop_collectors.host.pyspy_command.check_right", lambda pid: None)
    monkeypatch.setattr("time.monotonic_ns", lambda: 9_000_000_000)
    return threads


def window(collector: GilShares, body: bytes, **result: Any) -> Sequence[Message]:
    recorder = FakeRecorder.made[-1]
    recorder.body, recorder.ended = body, True
    for name, value in result.items():
        setattr(recorder, name, value)
    return collector.sample()


def values(messages: Sequence[Message]) -> dict[str, float | None]:
    (batch,) = [message for message in messages if isinstance(message, Batch)]
    return {key: column[0] for key, column in batch.values.items()}


def test_ticks_become_shares_by_thread_and_by_innermost_function(alive: set[int]) -> None:
    collector = GilShares(Tree(API, ENGINE))
    assert collector.open() == ()
    (info,) = collector.sample()
    assert cast(SourceInfo, info).source == "gil/4242", "the process that the device waits for"
    assert FakeRecorder.made[0].arguments[2] == "4242"
    messages = window(collector, BODY)
    assert values(messages) == {"host.gil{tid=4242}": 199 / TICKS, "host.gil{tid=4250}": 50 / TICKS}
    told = cast(SourceInfo, messages[0])
    assert told.says.endswith("held by schedule (sched.py) 40%, tokenize (tok.py) 10%")
    assert told.window == WINDOW
    assert len(FakeRecorder.made) == 2, "the next window begins"


def test_a_known_thread_that_was_not_seen_held_it_never_and_an_ended_one_is_left_out(alive: set[int]) -> None:
    collector = GilShares(Tree(ENGINE))
    collector.open()
    collector.sample()
    window(collector, BODY)
    assert values(window(collector, b"")) == {"host.gil{tid=4242}": 0.0, "host.gil{tid=4250}": 0.0}
    alive.discard(4250)
    messages = window(collector, b"")
    assert values(messages) == {"host.gil{tid=4242}": 0.0}
    assert "held by nobody" in cast(SourceInfo, messages[0]).says


def test_ticks_that_could_not_be_read_are_not_counted(alive: set[int]) -> None:
    collector = GilShares(Tree(ENGINE))
    collector.open()
    collector.sample()
    messages = window(collector, b"thread (4242): MainThread;run (a.py:1) 200\n", errors=99)
    assert values(messages) == {"host.gil{tid=4242}": 0.5}


@pytest.mark.parametrize(
    "result",
    [
        {"stopped": True, "output": "py-spy> Stopped sampling because process exited"},
        {"code": 1, "output": "Error: out of luck"},
        {"code": -9},
        {"errors": 480},
        {"body": b"nonsense"},
    ],
)
def test_a_window_that_was_not_whole_is_a_hole(alive: set[int], result: dict[str, Any]) -> None:
    collector = GilShares(Tree(ENGINE))
    collector.open()
    collector.sample()
    messages = window(collector, **{"body": BODY, **result})
    assert [type(message) for message in messages] == [Hole]
    assert cast(Hole, messages[0]).reason
    assert len(FakeRecorder.made) == 1, "not again at once"


def test_a_recorder_that_hangs_is_killed(alive: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    collector = GilShares(Tree(ENGINE))
    collector.open()
    collector.sample()
    monkeypatch.setattr("time.monotonic_ns", lambda: 60_000_000_000)
    collector.sample()
    assert FakeRecorder.made[0].killed


def test_py_spy_that_cannot_be_started_is_tried_again_later_and_loses_no_window(
    alive: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = [100.0], 0
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def refuse(*arguments: object) -> FakeRecorder:
        nonlocal tries
        tries += 1
        raise OSError(11, "Resource temporarily unavailable")

    collector = GilShares(Tree(ENGINE))
    collector.open()
    monkeypatch.setattr(pyspy_gil, "Recorder", refuse)
    assert [type(message) for message in collector.sample()] == [SourceInfo], "the source is told of all the same"
    for _ in range(2):
        clock[0] += 0.4
        with pytest.raises(CollectorError, match="could not be started .*unavailable.*goes on trying"):
            collector.sample()
    assert tries == 1
    clock[0] += 0.3
    with pytest.raises(CollectorError):
        collector.sample()
    assert tries == 2, "after a second"
    clock[0] += 1.9
    with pytest.raises(CollectorError):
        collector.sample()
    assert tries == 2, "and then more rarely"
    clock[0] += 0.2
    monkeypatch.setattr(pyspy_gil, "Recorder", FakeRecorder)
    assert collector.sample() == []
    monkeypatch.setattr(pyspy_gil, "Recorder", refuse)
    assert "host.gil{tid=4242}" in values(window(collector, BODY)), "the last window is whole"


def test_its_cost_is_said_to_come_on_top() -> None:
    @click.command()
    @target_options
    def command(*, target: Target) -> None: ...

    (option,) = [item for item in command.params if item.name == "gil"]
    assert "about 1.5 % of a core for each server, on top of --threads" in str(cast(click.Option, option).help)


def test_another_process_is_another_source(alive: set[int]) -> None:
    tree = Tree(ENGINE)
    collector = GilShares(tree)
    collector.open()
    collector.sample()
    window(collector, BODY)
    tree.processes = (ServerProcess(5000, "engine", "EngineCore", True, 2),)
    messages = collector.sample()
    assert FakeRecorder.made[1].killed
    assert cast(SourceInfo, messages[0]).source == "gil/5000"
    assert FakeRecorder.made[-1].arguments[2] == "5000"
    collector.close()
    assert FakeRecorder.made[-1].killed


def test_without_a_python_process_it_says_so(alive: set[int]) -> None:
    with pytest.raises(CollectorError, match="no GIL to be held") as caught:
        GilShares(Tree(ServerProcess(7, "server", "llama-server", False, 1))).open()
    assert caught.value.state == "absent"
    with pytest.raises(CollectorError, match=r"The server has ended\."):
        GilShares(Tree()).open()


@pytest.mark.parametrize("body", [b"thread 7 5\n", b"thread (7): a;b (c.py:1) many\n", b"\xff\n"])
def test_what_is_no_count_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="no stack with a count"):
        pyspy_gil.parse(body)


def test_it_runs_only_where_it_was_asked_for() -> None:
    server = {"url": "http://127.0.0.1:8000", "engine": "vllm", "pids": [1]}

    def names(**config: Any) -> list[str]:
        return [plan.name for plan in plans(parse(json.dumps({"servers": [server], **config})))]

    assert "host.gil" not in names()
    assert "host.gil" in names(gil=True)
    assert "host.gil" in names(gil=True, threads="off")
    assert "host.gil" not in names(gil=True, host=False)


@pytest.mark.parametrize(("typed", "told"), [([], False), (["--gil"], True)])
def test_the_flag_reaches_the_probe(typed: list[str], told: bool) -> None:
    seen: list[Target] = []

    @click.command()
    @target_options
    def command(*, target: Target) -> None:
        seen.append(target)

    assert CliRunner().invoke(command, typed).exit_code == 0
    assert probe_config(seen[0], ())["gil"] is told
