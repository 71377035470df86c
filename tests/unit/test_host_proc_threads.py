"""The collector of run states as it is driven: processes that come and go, and a boost."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host import threads_proc
from gaptop_collectors.host.critical import FOUND
from gaptop_collectors.host.proc_pass import parts
from gaptop_collectors.host.proc_tasks import Tasks, keeps_schedstat
from gaptop_collectors.host.proc_watch import ProcessWatch
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.roles import critical_tid
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


@pytest.mark.parametrize(
    ("count", "every", "most", "wait"),
    [
        (7, 1, 7, 1.0),
        (240, 1, 240, 1.0),
        (2000, 8, 63, 0.25),
        (201, 50, 2, 50 / 101),
        (100_000, 400, 63, 400 / 1588),
        (2, 8, 1, 4.0),
        (1, 2, 1, 2.0),
    ],
)
def test_many_threads_are_read_in_parts(count: int, every: int, most: int, wait: float) -> None:
    assert parts(count, every) == (most, wait)
    assert most * every / wait >= count, "all of them in a pass"


def test_of_more_threads_than_can_be_read_each_second_all_are_read_more_rarely(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_proc, "_FOR_PASSES", 1.01 * threads_proc._THREAD)  # one a second
    monkeypatch.setattr(threads_proc, "_DOUBT", 10**9)
    monkeypatch.setattr(threads_proc, "_TRUST", 10**9)
    clock = [time.monotonic_ns()]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    other = subprocess.Popen(["sleep", "60"])
    try:
        collector = ProcThreads(Tree(described(sleeper.pid), described(other.pid)))
        collector.open()
        out: list[Message] = []
        for _ in range(120):
            clock[0] += 83_000_000
            out += collector.sample()
        passes = sum(watch._passes.done for watch in collector._watches.values())
        collector.close()
    finally:
        other.kill()
        other.wait()
    told = [
        message.times_ns[0]
        for message in out
        if isinstance(message, Batch) and f"host.runnable_threads{{pid={sleeper.pid}}}" in message.values
    ]
    assert 3 <= len(told) <= 5, told
    assert all(later - earlier == pytest.approx(2e9, abs=0.4e9) for earlier, later in zip(told, told[1:], strict=False))
    infos = [message for message in out if isinstance(message, SourceInfo) and message.source == f"proc/{sleeper.pid}"]
    assert infos[-1].window_by_signal == {"host.runnable_threads": 2.0}
    assert passes <= 14


class Spent:
    """Our CPU time, which the test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.cpu = time.monotonic_ns(), 0.0
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now)
        monkeypatch.setattr(time, "thread_time", lambda: self.cpu)

    def run(self, collector: ProcThreads, seconds: float, turn: float, thread: float) -> float:
        """Share of a core that turns and readings took which cost so much."""
        begun, until = self.cpu, self.now + round(seconds * 1e9)
        while self.now < until:
            self.now += round(collector.period * 1e9)
            self.cpu += turn
            with mock.patch.object(Tasks, "times", self.costly(thread)):
                collector.sample()
        return (self.cpu - begun) / seconds

    def costly(self, thread: float) -> Callable[..., tuple[int, int]]:
        real = Tasks.times

        def times(tasks: Tasks, tid: int, *, schedstat: bool) -> tuple[int, int]:
            self.cpu += thread
            return real(tasks, tid, schedstat=schedstat)

        return times


@pytest.mark.parametrize("thread", [5e-6, 50e-6, 500e-6])
def test_reading_all_threads_stays_inside_its_share_whatever_one_costs(
    thread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = threading.Event()
    threads = [threading.Thread(target=leave.wait) for _ in range(200)]
    for item in threads:
        item.start()
    try:
        spent = Spent(monkeypatch)
        collector = ProcThreads(Tree(described(os.getpid())))
        collector.open()
        spent.run(collector, 5.0, 0.0, thread)  # two passes at once, to know which are hot
        share = spent.run(collector, 300.0, 0.0, thread)
        (watch,) = collector._watches.values()
        assert watch.count > 200
        assert watch._passes.done >= 3, "and yet all are read again and again"
        collector.close()
    finally:
        leave.set()
        for item in threads:
            item.join()
    assert share <= 0.002 * 1.1


@pytest.mark.parametrize(("turn", "most", "boosted"), [(0.0002, 12, 0.034), (0.0012, 1, 0.125), (0.004, 1, 0.125)])
def test_looking_stays_inside_its_share(
    turn: float, most: int, boosted: float, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = Spent(monkeypatch)
    collector = ProcThreads(Tree(described(sleeper.pid)))
    collector.open()
    spent.run(collector, 60.0, turn, 0.0)
    assert [watch.most for watch in collector._watches.values()] == [most]
    assert collector.period == threads_proc._PERIOD
    collector.boost(600.0)
    share = spent.run(collector, 60.0, turn, 0.0)
    assert collector.period == pytest.approx(boosted, rel=0.05)
    assert share <= max(0.006, turn / threads_proc._PERIOD) * 1.05
    collector.close()


def test_the_main_thread_is_always_looked_at_and_others_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = threading.Event()

    def spin() -> None:
        while not leave.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin) for _ in range(3)]
    now = time.monotonic_ns()
    watch = ProcessWatch(described(os.getpid()), schedstat=keeps_schedstat(), ticks=True, now=now)
    watch.rescan(now, 1.0)
    for item in threads:
        item.start()
    try:
        time.sleep(0.5)
        watch.rescan(time.monotonic_ns(), 1.0)
        assert watch.watched >= 3
        watch.most = 1
        watch.rescan(time.monotonic_ns(), 1.0)
        assert list(watch._threads) == [os.getpid()]
    finally:
        leave.set()
        for item in threads:
            item.join()
        watch.close()


def test_the_thread_that_py_spy_names_as_critical_is_watched_while_it_sleeps() -> None:
    leave = threading.Event()
    loop = threading.Thread(target=leave.wait, name="Thread-4 (_event_loop_wrapper)")
    loop.start()
    try:
        assert loop.native_id is not None
        process = described(os.getpid())
        watch = ProcessWatch(process, schedstat=keeps_schedstat(), ticks=True, now=time.monotonic_ns())
        watch.rescan(time.monotonic_ns(), 1.0)
        assert loop.native_id not in watch._threads
        FOUND.tell(process, critical_tid(process, {process.pid: "MainThread", loop.native_id: loop.name}))
        watch.rescan(time.monotonic_ns(), 1.0)
        watch.most = 1
        watch.rescan(time.monotonic_ns() + 60_000_000_000, 1.0)
        assert set(watch._threads) >= {process.pid, loop.native_id}
        watch.look()
        watch.window(time.monotonic_ns())
        watch.look()
        info = next(message for message in watch.deliver() if isinstance(message, SourceInfo))
        assert info.entity["critical_tid"] == loop.native_id
        watch.close()
    finally:
        FOUND.tell(process, process.pid)
        leave.set()
        loop.join()
