"""Run states from /proc, of real threads of this process and of a child that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host import proc_watch
from gaptop_collectors.host.proc_tasks import Tasks, all_cores_tick, keeps_schedstat
from gaptop_collectors.host.proc_watch import SECOND, ProcessWatch
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.wait_channels import waits_on
from gaptop_collectors.target import ServerProcess


@pytest.fixture(autouse=True)
def _quick_turns() -> Iterator[None]:
    """Beside a spinning thread each look waits for the GIL: in a process of many threads 5 ms each made it late."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


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
        (b"do_signal_stop", "stopped"),
        (b"do_wait", "other"),
        (b"rwsem_down_read_slowpath", "other"),
        (b"uvm_fault_wait", "other"),
    ],
)
def test_wait_channels_are_grouped(channel: bytes, on: str) -> None:
    assert waits_on(channel) == on


def test_this_kernel_s_accounting_is_detected() -> None:
    with open("/proc/thread-self/schedstat", "rb") as file:
        assert keeps_schedstat() == (file.read().split() != [b"0", b"0", b"0"])


def watched(pid: int, **how: bool) -> ProcessWatch:
    """A watch whose main thread is looked at from now on."""
    now = time.monotonic_ns()
    made = ProcessWatch(described(pid), **{"schedstat": keeps_schedstat(), "ticks": True, **how}, now=now)
    made.rescan(now, 1.0)
    return made


def next_window(watch: ProcessWatch, seconds: float = 0.03) -> list[Message]:
    """A window of two looks, and the look after it."""
    for _ in range(2):
        time.sleep(seconds)
        watch.look()
    watch.window(time.monotonic_ns())
    time.sleep(seconds)
    watch.look()
    return watch.deliver()


def test_a_sleeping_process_sleeps_and_is_described(sleeper: subprocess.Popen[bytes]) -> None:
    watch = watched(sleeper.pid)
    messages = next_window(watch)
    watch.close()
    info = messages[0]
    assert isinstance(info, SourceInfo)
    assert info.source == f"proc/{sleeper.pid}"
    assert info.entity["threads"] == [{"tid": sleeper.pid, "name": "sleep"}]
    assert info.says == ""
    found = values(messages)
    assert found[f"host.stopped{{pid={sleeper.pid}}}"] == 0.0
    assert found[f"host.oncpu{{tid={sleeper.pid}}}"] == pytest.approx(0.0, abs=0.02)
    assert found[f"host.blocked{{on=sleep,tid={sleeper.pid}}}"] == pytest.approx(1.0, abs=0.05)
    assert found[f"host.blocked{{on=disk,tid={sleeper.pid}}}"] == 0.0, "seen, and it was none"


def test_a_stopped_process_is_stopped_and_not_asleep(sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    watch = watched(sleeper.pid)
    found = values(next_window(watch))
    watch.close()
    os.kill(sleeper.pid, signal.SIGCONT)
    assert found[f"host.stopped{{pid={sleeper.pid}}}"] == 1.0
    assert not any(key.startswith("host.blocked") for key in found)


def test_where_channels_are_refused_the_wait_is_unknown_and_the_remedy_is_said(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc_watch, "may_see_channels", lambda pid: False)
    watch = watched(sleeper.pid)
    messages = next_window(watch)
    watch.close()
    assert values(messages)[f"host.blocked{{on=unknown,tid={sleeper.pid}}}"] == pytest.approx(1.0, abs=0.05)
    info = messages[0]
    assert isinstance(info, SourceInfo)
    assert "run gaptop as the server's user or as root" in info.says


@pytest.mark.parametrize("schedstat", [True, False])
def test_a_busy_thread_becomes_watched_and_its_shares_add_up(schedstat: bool) -> None:
    if schedstat and not keeps_schedstat():
        pytest.skip("this kernel keeps no schedstat")
    leave = threading.Event()
    tids: list[int] = []

    def spin() -> None:
        tids.append(threading.get_native_id())
        while not leave.is_set():
            sum(range(1000))

    spinner = threading.Thread(target=spin)
    spinner.start()
    try:
        watch = watched(os.getpid(), schedstat=schedstat)
        time.sleep(0.2)
        watch.rescan(time.monotonic_ns(), 1.0)
        messages = next_window(watch, 0.1)
        watch.close()
    finally:
        leave.set()
        spinner.join()
    found = values(messages)
    shares = [value for key, value in found.items() if f"tid={tids[0]}" in key and value is not None]
    assert found[f"host.oncpu{{tid={tids[0]}}}"]
    assert 0 < sum(shares) <= 1 + 1e-9
    info = messages[0]
    assert isinstance(info, SourceInfo)
    told = schedstat, "host.runqueue_wait" in info.signals, "host.runqueue_wait" not in info.unsupported
    assert told in {(True, True, True), (False, False, False)}
    assert schedstat or "task_delayacct" in info.unsupported["host.runqueue_wait"]


def test_a_late_window_is_a_hole_without_values(sleeper: subprocess.Popen[bytes]) -> None:
    watch = watched(sleeper.pid)
    began = watch.began
    watch.look()
    watch.window(began + 3 * SECOND)
    watch.look()
    late = watch.deliver()
    watch.close()
    assert [(m.start_ns, m.end_ns) for m in late if isinstance(m, Hole)] == [(began, began + 3 * SECOND)]
    assert not any(key.startswith("host.oncpu") for key in values(late))


def test_the_threads_that_want_a_core_are_counted_whichever_are_watched() -> None:
    leave = threading.Event()
    threads = [threading.Thread(target=leave.wait) for _ in range(24)]
    for thread in threads:
        thread.start()
    try:
        watch = watched(os.getpid(), schedstat=True)
        began, cpu = watch.began, time.process_time()
        while time.process_time() < cpu + 0.3:
            sum(range(1000))
        watch.look()
        watch.window(time.monotonic_ns())
        now = time.monotonic_ns()
        watch.rescan(now, max(0.5, (now - began) / SECOND))
        watch.window(now)
        watch.look()
        found = values(watch.deliver())[f"host.runnable_threads{{pid={os.getpid()}}}"]
        assert watch.count >= 25
        watch.close()
    finally:
        leave.set()
        for thread in threads:
            thread.join()
    assert found is not None
    assert (0.3 - 0.02) * SECOND / (now - began) <= found < 24, "the threads that sleep do not count"


def test_a_pid_that_is_used_again_is_not_read_as_the_old_process() -> None:
    with pytest.raises(ProcessLookupError, match="another process"):
        Tasks(os.getpid(), 1)


def test_a_process_that_dies_between_two_readings_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    watch = watched(sleeper.pid)
    watch.look()
    sleeper.kill()
    sleeper.wait()
    watch.look()
    watch.window(time.monotonic_ns())
    watch.rescan(time.monotonic_ns(), 1.0)
    assert watch.gone
    assert [type(message) for message in watch.deliver()] == [SourceInfo, Delivered], "and nothing was measured"
    watch.close()


def test_a_thread_s_name_is_anybody_s_text() -> None:
    leave = threading.Event()
    tids: list[int] = []

    def named() -> None:
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "wb") as file:
            file.write(b") R 1 (\n\x1b[31m")
        tids.append(threading.get_native_id())
        while not leave.is_set():
            sum(range(1000))

    thread = threading.Thread(target=named)
    thread.start()
    try:
        watch = watched(os.getpid())
        time.sleep(0.2)
        watch.rescan(time.monotonic_ns(), 1.0)
        messages = next_window(watch)
        watch.close()
    finally:
        leave.set()
        thread.join()
    info = messages[0]
    assert isinstance(info, SourceInfo)
    assert {"tid": tids[0], "name": ") R 1 (␊␛[31m"} in list(info.entity["threads"])  # type: ignore[arg-type]
    assert f"host.oncpu{{tid={tids[0]}}}" in values(messages)


def test_cores_without_ticks_are_known(tmp_path: Path) -> None:
    path = tmp_path / "nohz_full"
    assert all_cores_tick(path)
    for text, ticks in ((" (null)\n", True), ("\n", True), ("2-7\n", False)):
        path.write_text(text)
        assert all_cores_tick(path) == ticks
