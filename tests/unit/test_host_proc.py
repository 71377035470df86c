"""Run states from /proc, of real threads of this process and of a child that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host import threads_proc
from gaptop_collectors.host.proc_thread import keeps_schedstat, waits_on
from gaptop_collectors.host.proc_watch import SECOND, ProcessWatch
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
    until = time.monotonic() + 10
    while b"nanosleep" not in _channel(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def _channel(pid: int) -> bytes:
    with open(f"/proc/{pid}/wchan", "rb") as file:
        return file.read()


def values(messages: list[Message]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for message in messages:
        if isinstance(message, Batch):
            found.update({key: column[-1] for key, column in message.values.items()})
    return found


@pytest.mark.parametrize(
    ("channel", "on"),
    [
        (b"futex_do_wait", "futex"),
        (b"futex_wait_queue", "futex"),
        (b"hrtimer_nanosleep", "sleep"),
        (b"anon_pipe_read", "pipe"),
        (b"ep_poll", "poll"),
        (b"poll_schedule_timeout.constprop.0", "poll"),
        (b"inet_csk_accept", "poll"),
        (b"unix_stream_read_generic", "poll"),
        (b"io_schedule", "disk"),
        (b"folio_wait_bit_common", "disk"),
        (b"do_wait", "other"),
    ],
)
def test_wait_channels_are_grouped(channel: bytes, on: str) -> None:
    assert waits_on(channel) == on


def test_this_kernel_s_accounting_is_detected() -> None:
    with open("/proc/thread-self/schedstat", "rb") as file:
        assert keeps_schedstat() == (file.read().split() != [b"0", b"0", b"0"])


def test_a_sleeping_process_sleeps_and_is_described(sleeper: subprocess.Popen[bytes]) -> None:
    now = time.monotonic_ns()
    watch = ProcessWatch(described(sleeper.pid), schedstat=keeps_schedstat(), now=now)
    watch.rescan(now, 64)
    first = watch.window(now + 1)
    assert isinstance(first[0], SourceInfo)
    assert first[0].source == f"proc/{sleeper.pid}"
    assert first[0].entity["threads"] == [{"tid": sleeper.pid, "name": "sleep"}]
    assert values(first) == {f"host.stopped{{pid={sleeper.pid}}}": 0.0}
    watch.look()
    second = values(watch.window(now + SECOND // 4))
    watch.close()
    assert second[f"host.oncpu{{tid={sleeper.pid}}}"] == 0.0
    assert second[f"host.blocked{{on=sleep,tid={sleeper.pid}}}"] == pytest.approx(1.0, abs=0.01)


def test_a_stopped_process_is_stopped_and_not_asleep(sleeper: subprocess.Popen[bytes]) -> None:
    now = time.monotonic_ns()
    watch = ProcessWatch(described(sleeper.pid), schedstat=keeps_schedstat(), now=now)
    watch.rescan(now, 64)
    watch.window(now + 1)
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    watch.look()
    found = values(watch.window(now + SECOND // 4))
    watch.close()
    os.kill(sleeper.pid, signal.SIGCONT)
    assert found[f"host.stopped{{pid={sleeper.pid}}}"] == 1.0
    assert not any(key.startswith("host.blocked") for key in found)


@pytest.mark.skipif(not keeps_schedstat(), reason="this kernel keeps no schedstat")
def test_a_busy_thread_becomes_watched_and_its_shares_add_up() -> None:
    leave = threading.Event()
    tids: list[int] = []

    def spin() -> None:
        tids.append(threading.get_native_id())
        while not leave.is_set():
            time.sleep(0)

    spinner = threading.Thread(target=spin)
    spinner.start()
    try:
        began = time.monotonic_ns()
        watch = ProcessWatch(described(os.getpid()), schedstat=True, now=began)
        watch.rescan(began, 64)
        time.sleep(0.1)
        watch.rescan(time.monotonic_ns(), 64)
        watch.window(time.monotonic_ns())
        for _ in range(5):
            time.sleep(0.02)
            watch.look()
        found = values(watch.window(time.monotonic_ns()))
        watch.close()
    finally:
        leave.set()
        spinner.join()
    shares = [value for key, value in found.items() if f"tid={tids[0]}" in key and value is not None]
    assert found[f"host.oncpu{{tid={tids[0]}}}"]
    assert sum(shares) == pytest.approx(1.0, abs=0.05)


def test_a_late_window_is_a_hole_without_values(sleeper: subprocess.Popen[bytes]) -> None:
    now = time.monotonic_ns()
    watch = ProcessWatch(described(sleeper.pid), schedstat=keeps_schedstat(), now=now)
    watch.rescan(now, 64)
    watch.window(now + 1)
    watch.look()
    late = watch.window(now + 3 * SECOND)
    watch.close()
    assert [(m.start_ns, m.end_ns) for m in late if isinstance(m, Hole)] == [(now + 1, now + 3 * SECOND)]
    assert not any(key.startswith("host.oncpu") for key in values(late))


def test_more_threads_than_places_all_get_their_turn() -> None:
    leave = threading.Event()
    threads = [threading.Thread(target=leave.wait) for _ in range(24)]
    for thread in threads:
        thread.start()
    try:
        now = time.monotonic_ns()
        watch = ProcessWatch(described(os.getpid()), schedstat=True, now=now)
        seen: set[int] = set()
        for turn in range(24):
            watch.rescan(now + turn * SECOND, 8)
            followed = set(watch._threads)
            assert len(followed) <= 8
            assert os.getpid() in followed
            seen |= followed
        watch.close()
    finally:
        leave.set()
        for thread in threads:
            thread.join()
    assert {thread.native_id for thread in threads} <= seen


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
