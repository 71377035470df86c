"""The collector of run states as it is driven: processes that come and go, and a boost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host import threads_proc
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.threads_proc import ProcThreads
from gaptop_collectors.target import ServerProcess


class Tree:
    def __init__(self, *processes: ServerProcess) -> None:
        self.processes = list(processes)

    def current(self) -> list[ServerProcess]:
        return list(self.processes)

    def why_empty(self) -> str:
        return "" if self.processes else "The server has ended."


def described(pid: int) -> ServerProcess:
    usage = read_usage(pid)
    assert usage is not None
    return ServerProcess(pid, "server", "target", False, usage.started)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_no_process_is_said_and_not_zero() -> None:
    with pytest.raises(CollectorError, match="The server has ended") as caught:
        ProcThreads(Tree()).open()
    assert caught.value.state == "absent"


def test_a_process_that_ends_leaves_a_hole_and_a_watermark(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.monotonic_ns()]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    tree = Tree(described(sleeper.pid), described(os.getpid()))
    collector = ProcThreads(tree)
    collector.open()

    def turn() -> list[Message]:
        clock[0] += 50_000_000
        return list(collector.sample())

    before = [message for _ in range(10) for message in turn()]
    assert {message.source for message in before if isinstance(message, Batch)} == {
        f"proc/{sleeper.pid}",
        f"proc/{os.getpid()}",
    }
    tree.processes.pop(0)
    after = [message for _ in range(50) for message in turn()]
    collector.close()
    holes = [message for message in after if isinstance(message, Hole)]
    assert [(hole.source, hole.reason) for hole in holes] == [
        (f"proc/{sleeper.pid}", f"process {sleeper.pid} has ended")
    ]
    told = [m.time_ns for m in after if isinstance(m, Delivered) and m.source == f"proc/{sleeper.pid}"]
    assert told[-1] > holes[0].end_ns, "nobody waits for an ended process"


def test_a_boost_looks_more_often_for_a_while(sleeper: subprocess.Popen[bytes]) -> None:
    collector = ProcThreads(Tree(described(sleeper.pid)))
    collector.open()
    collector.sample()
    assert collector.period == threads_proc._PERIOD
    collector.boost(5)
    collector.sample()
    collector.close()
    assert collector.period < threads_proc._PERIOD


def test_of_more_threads_than_can_be_read_each_second_all_are_read_more_rarely(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_proc, "_PASSED_A_SECOND", 1)
    clock = [time.monotonic_ns()]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    other = subprocess.Popen(["sleep", "60"])
    try:
        collector = ProcThreads(Tree(described(sleeper.pid), described(other.pid)))
        collector.open()
        passes: list[int] = []
        out: list[Message] = []
        for _ in range(120):
            clock[0] += 83_000_000
            out += collector.sample()
            passes.append(sum(watch._passes for watch in collector._watches.values()))
        collector.close()
    finally:
        other.kill()
        other.wait()
    told = [
        message.times_ns[0]
        for message in out
        if isinstance(message, Batch) and f"host.runnable_threads{{pid={sleeper.pid}}}" in message.values
    ]
    assert 3 <= len(told) <= 5
    assert all(later - earlier == pytest.approx(2e9, abs=0.4e9) for earlier, later in zip(told, told[1:], strict=False))
    infos = [message for message in out if isinstance(message, SourceInfo) and message.source == f"proc/{sleeper.pid}"]
    assert infos[-1].window_by_signal == {"host.runnable_threads": 2.0}
    assert passes[-1] <= 14
