"""What the /proc sampler says of threads whose truth is known: real waits, a real core to share, a real quota."""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, Hole, Message, SourceInfo
from gaptop_collectors.host.cgroup import Cgroup
from gaptop_collectors.host.proc_tasks import keeps_schedstat
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.threads_proc import ProcThreads
from gaptop_collectors.signals import WAITING_ON
from gaptop_collectors.target import ServerProcess

pytestmark = pytest.mark.skipif(not keeps_schedstat(), reason="this kernel keeps no schedstat")

WAITERS = """
import os, select, sys, threading, time

def name(text):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(text)

lock = threading.Lock()
lock.acquire()
pipe = os.pipe()
other = os.pipe()

def wake(text, sleep):
    # A little work between two waits, so that the thread matters.
    name(text)
    while True:
        until = time.thread_time() + 0.004
        while time.thread_time() < until:
            pass
        sleep()

poll = select.poll()
poll.register(other[0], select.POLLIN)
waits = {
    "sleep": lambda: time.sleep(0.1),
    "futex": lambda: lock.acquire(timeout=0.1),
    "poll": lambda: poll.poll(100),
    "pipe": lambda: os.read(pipe[0], 1),
}
for text, sleep in waits.items():
    threading.Thread(target=wake, args=(text, sleep), daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.1)
    os.write(pipe[1], b"x")
"""
SPIN = "print('ready', flush=True)\nwhile True: pass"


@contextlib.contextmanager
def running(script: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


class Tree:
    def __init__(self, pid: int) -> None:
        usage = read_usage(pid)
        assert usage is not None
        self.process = ServerProcess(pid, "server", "target", True, usage.started)

    def current(self) -> list[ServerProcess]:
        return [self.process]

    def why_empty(self) -> str:
        return ""


def watch(pid: int, windows: int) -> list[Message]:
    """What the collector delivers until so many windows of the main thread were measured."""
    collector = ProcThreads(Tree(pid))
    out = list(collector.open())
    key = f"host.oncpu{{tid={pid}}}"
    until = time.monotonic() + 120
    while windows and time.monotonic() < until:
        found = collector.sample()
        windows -= sum(isinstance(message, Batch) and key in message.values for message in found)
        out += found
        time.sleep(collector.period)
    collector.close()
    assert not windows
    return out


def by_name(messages: list[Message], signal: str, **labels: str) -> dict[str, list[float]]:
    """The values of one signal by the thread's name."""
    names: dict[int, str] = {}
    for message in messages:
        if isinstance(message, SourceInfo):
            threads = message.entity["threads"]
            assert isinstance(threads, list)
            names |= {thread["tid"]: thread["name"] for thread in threads}
    more = "".join(f"{key}={value}," for key, value in labels.items())
    found: dict[str, list[float]] = {}
    for tid, name in names.items():
        key = f"{signal}{{{more}tid={tid}}}"
        found[name] = [
            value
            for message in messages
            if isinstance(message, Batch)
            for value in message.values.get(key, ())
            if value is not None
        ]
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def test_what_threads_wait_on() -> None:
    with running(WAITERS) as target:
        messages = watch(target.pid, 14)
    kinds = ("sleep", "futex", "poll", "pipe")
    for what in kinds:
        windows = len(by_name(messages, "host.oncpu")[what])
        shares = {on: sum(by_name(messages, "host.blocked", on=on)[what]) / windows for on in kinds}
        assert max(shares, key=lambda on: shares[on]) == what, shares
        total = mean(by_name(messages, "host.oncpu")[what]) + mean(by_name(messages, "host.runqueue_wait")[what])
        assert shares[what] > 0.7 * sum(shares.values()), "beside it only the GIL (futex)"
        total = mean(by_name(messages, "host.oncpu")[what]) + mean(by_name(messages, "host.runqueue_wait")[what])
        assert shares[what] + total == pytest.approx(1.0, abs=0.35)
        assert shares[what] + total <= 1.001


@contextlib.contextmanager
def throttled(pid: int, quota_us: int, period_us: int) -> Iterator[Path]:
    """The process under a CPU quota of its own cgroup; skips where none may be made."""
    top = next((path for path in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct") if Path(path).is_dir()), None)
    folder = Path(top or "/sys/fs/cgroup") / f"gaptop-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup may be made here: {error}")
    try:
        try:
            if top:
                (folder / "cpu.cfs_period_us").write_text(str(period_us))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
            else:
                (folder / "cpu.max").write_text(f"{quota_us} {period_us}")
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            pytest.skip(f"no CPU quota may be set here: {error}")
        yield folder
    finally:
        home = Path(top or "/sys/fs/cgroup") / "cgroup.procs"
        with contextlib.suppress(OSError):
            home.write_text(str(pid))
        until = time.monotonic() + 10
        while folder.exists() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                folder.rmdir()
            time.sleep(0.02)


def test_a_thread_that_its_quota_holds_back_waits_in_every_window() -> None:
    """It runs 50 ms of each second: its waits are booked once a second, and four windows lie in each."""
    with running(SPIN) as target, throttled(target.pid, 50_000, 1_000_000) as folder:
        cgroup = Cgroup(Tree(target.pid), "http://127.0.0.1:8000", host=False)
        cgroup.open()
        began, before = time.monotonic(), list(cgroup.sample())
        messages = watch(target.pid, 24)
        seconds, after = time.monotonic() - began, list(cgroup.sample())
        assert folder.is_dir()
    name = next(iter(by_name(messages, "host.oncpu")))
    ran, waited = by_name(messages, "host.oncpu")[name], by_name(messages, "host.runqueue_wait")[name]
    assert mean(ran) == pytest.approx(0.05, abs=0.03)
    assert 0.7 <= mean(waited) <= 0.98, "of each wait at most the time between two looks is not seen"
    silent = [wait for run, wait in zip(ran, waited, strict=True) if run == 0]
    assert len(silent) >= 8
    assert sum(wait > 0.6 for wait in silent) >= 0.8 * len(silent), "also while the wait goes on"
    slept = [sum(shares) for on in WAITING_ON for shares in by_name(messages, "host.blocked", on=on).values()]
    assert sum(slept) == 0, "it never sleeps"
    first, last = (next(m for m in some if isinstance(m, Batch)).values for some in (before, after))

    def increase(key: str) -> float:
        was, now = first[key][0], last[key][0]
        assert was is not None
        assert now is not None
        return now - was

    assert last["host.quota_cores"] == [0.05]
    assert 0.6 * seconds <= increase("host.quota_periods") <= seconds + 2
    assert increase("host.throttled_periods") / increase("host.quota_periods") > 0.7
    assert increase("host.throttled") > 0.5 * seconds


def test_two_that_share_a_core_wait_for_each_other() -> None:
    with running(SPIN) as target, running(SPIN) as other:
        core = min(os.sched_getaffinity(0))
        for process in (target, other):
            os.sched_setaffinity(process.pid, {core})
        messages = watch(target.pid, 12)
    name = next(iter(by_name(messages, "host.oncpu")))
    ran, waited = mean(by_name(messages, "host.oncpu")[name]), mean(by_name(messages, "host.runqueue_wait")[name])
    assert ran <= 0.6
    assert ran + waited == pytest.approx(1.0, abs=0.1)
    wanted = [
        value
        for m in messages
        if isinstance(m, Batch)
        for value in m.values.get(f"host.runnable_threads{{pid={target.pid}}}", ())
        if value is not None
    ]
    assert mean(wanted) == pytest.approx(1.0, abs=0.2)


STRANGER = """
import os, sys
from tests.e2e.test_host_proc_truth import by_name, watch
from gaptop_collectors.collector import SourceInfo

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
messages = watch(int(sys.argv[1]), 12)
says = [message.says for message in messages if isinstance(message, SourceInfo)][-1]
seen = {on: sum(map(sum, by_name(messages, "host.blocked", on=on).values())) for on in ("unknown", "sleep", "other")}
ran = by_name(messages, "host.oncpu")
print(repr((says, seen, sorted(ran))))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_without_the_right_to_see_channels_the_waits_are_unknown_and_the_rest_goes_on() -> None:
    with running("import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.05)") as target:
        command = [sys.executable, "-c", STRANGER, str(target.pid)]
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=paths)
    assert done.returncode == 0, done.stderr
    says, seen, names = ast.literal_eval(done.stdout)
    assert "may not be read" in says
    assert "as the server's user or as root" in says
    assert seen["unknown"] > 6
    assert seen["sleep"] == seen["other"] == 0
    assert len(names) == 1


def test_a_server_that_comes_and_goes_leaves_no_descriptor_behind() -> None:
    def held() -> int:
        return sum("/proc/" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _open(fd))

    before = held()
    with running(WAITERS) as target:
        collector = ProcThreads(Tree(target.pid))
        collector.open()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            collector.sample()
            time.sleep(collector.period)
        assert held() > before
        target.kill()
        target.wait()
        holes: list[Message] = []
        until = time.monotonic() + 30
        while not holes and time.monotonic() < until:
            holes = [message for message in collector.sample() if isinstance(message, Hole)]
            time.sleep(collector.period)
        ended = [message for message in holes if isinstance(message, Hole) and "has ended" in message.reason]
        collector.close()
    assert ended
    assert held() == before


def _open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")
