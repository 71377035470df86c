"""A real py-spy on real processes: the shares are right, refusals speak, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import CollectorError, Delivered, Hole, Message, SourceInfo, Stacks
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_command import check_right
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import Role, ServerProcess

TARGET = """
import threading, time
def rest():
    while True:
        time.sleep(10)
threading.Thread(target=rest, name="resting", daemon=True).start()
def schedule(until):
    while time.monotonic() < until:
        time.sleep(0.001)
def prepare(until):
    while time.monotonic() < until:
        time.sleep(0.001)
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    schedule(time.monotonic() + 0.06)
    prepare(time.monotonic() + 0.14)
"""

COLLECTOR = """
import sys, time
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import ServerProcess
class Tree:
    def current(self):
        return [ServerProcess(int(sys.argv[1]), "engine", "engine", True, int(sys.argv[2]))]
    def why_empty(self):
        return ""
collector = PySpyThreads(Tree())
collector.open()
while True:
    collector.sample()
    time.sleep(0.1)
"""


class Tree:
    """Processes that the test sets."""

    def __init__(self, *processes: ServerProcess) -> None:
        self.processes = list(processes)

    def current(self) -> list[ServerProcess]:
        return list(self.processes)

    def why_empty(self) -> str:
        return "" if self.processes else "The server's process has ended."


def described(pid: int, role: Role = "engine", python: bool = True) -> ServerProcess:
    usage = read_usage(pid)
    assert usage is not None
    return ServerProcess(pid, role, "target", python, usage.started)


@pytest.fixture
def target() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    if check_right(process.pid) is not None:
        process.kill()
        process.wait()
        pytest.skip("the stacks of another process may not be read here (needs CAP_SYS_PTRACE or root)")
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def watch(collector: PySpyThreads, until: float, stop_at: int = 10**9) -> list[Message]:
    """Messages until the time or until ``stop_at`` windows are here."""
    found: list[Message] = []
    while time.monotonic() < until and sum(isinstance(message, Stacks) for message in found) < stop_at:
        found += collector.sample()
        time.sleep(0.05)
    return found


def recorders_of(pid: int) -> list[int]:
    """Living py-spy processes that record this pid."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if b"record" in words and str(pid).encode() in words and state != b"Z":
            found.append(int(name))
    return found


def test_the_shares_of_known_phases_are_right(target: subprocess.Popen[bytes]) -> None:
    collector = PySpyThreads(Tree(described(target.pid)), fast=True)
    collector.open()
    try:
        messages = watch(collector, time.monotonic() + 20, stop_at=4)
    finally:
        collector.close()
    windows = [message for message in messages if isinstance(message, Stacks)]
    assert len(windows) >= 4
    seconds = {"schedule": 0.0, "prepare": 0.0, "other": 0.0}
    for window in windows:
        assert window.source == f"threads/{target.pid}"
        for span in window.spans:
            assert window.covered[0] <= span.start_ns < span.end_ns <= window.covered[1]
            if span.tid == target.pid:
                inner = {frame.function for frame in span.stack} & {"schedule", "prepare"}
                seconds[inner.pop() if inner else "other"] += (span.end_ns - span.start_ns) / 1e9
    total = sum(seconds.values())
    covered = sum(window.covered[1] - window.covered[0] for window in windows) / 1e9
    assert total == pytest.approx(covered, rel=0.02), "the main thread has a stack all the time"
    assert seconds["schedule"] / total == pytest.approx(0.3, abs=0.1)
    assert seconds["prepare"] / total == pytest.approx(0.7, abs=0.1)
    for before, after in zip(windows, windows[1:], strict=False):
        assert after.covered[0] >= before.covered[1]
    gaps = sum(message.end_ns - message.start_ns for message in messages if isinstance(message, Hole))
    assert gaps < 0.1 * covered * 1e9
    delivered = [message.time_ns for message in messages if isinstance(message, Delivered)]
    assert delivered == sorted(delivered)
    infos = [message for message in messages if isinstance(message, SourceInfo)]
    assert {thread["name"] for thread in infos[-1].entity["threads"]} == {"MainThread", "resting"}  # type: ignore
    assert infos[-1].says.startswith("100 Hz, 1 s windows")
    assert recorders_of(target.pid) == []


@pytest.mark.parametrize("setpriv", [True, False])
def test_no_recorder_outlives_a_killed_collector(target: subprocess.Popen[bytes], setpriv: bool) -> None:
    started = str(described(target.pid).started)
    code = COLLECTOR if setpriv else "import shutil\nshutil.which = lambda name: None\n" + COLLECTOR
    collector = subprocess.Popen([sys.executable, "-c", code, str(target.pid), started])
    try:
        until = time.monotonic() + 20
        while not recorders_of(target.pid):
            assert time.monotonic() < until, "no py-spy was started"
            time.sleep(0.05)
        time.sleep(0.3)
        assert recorders_of(target.pid), "it watches"
    finally:
        collector.send_signal(signal.SIGKILL)
        collector.wait()
    until = time.monotonic() + 2
    while recorders_of(target.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert recorders_of(target.pid) == []
    assert target.poll() is None, "the server goes on"


def test_a_target_that_ends_delivers_what_was_seen(target: subprocess.Popen[bytes]) -> None:
    tree = Tree(described(target.pid))
    collector = PySpyThreads(tree, fast=False)
    collector.open()
    try:
        watch(collector, time.monotonic() + 1.5)
        target.kill()
        target.wait()
        tree.processes.clear()
        messages = watch_to_the_end(collector)
    finally:
        collector.close()
    windows = [message for message in messages if isinstance(message, Stacks)]
    assert len(windows) == 1
    assert windows[0].covered[1] - windows[0].covered[0] > 0.8e9
    reasons = [message.reason for message in messages if isinstance(message, Hole)]
    assert reasons == [f"process {target.pid} has ended"]


def test_the_last_window_is_delivered_at_the_end(target: subprocess.Popen[bytes]) -> None:
    collector = PySpyThreads(Tree(described(target.pid)), fast=False)
    collector.open()
    try:
        watch(collector, time.monotonic() + 2.0)
        begun = time.monotonic_ns()
        messages = collector.finish()
        took = (time.monotonic_ns() - begun) / 1e9
        assert recorders_of(target.pid) == []
    finally:
        collector.close()
    windows = [message for message in messages if isinstance(message, Stacks)]
    assert len(windows) == 1
    assert windows[0].covered[1] - windows[0].covered[0] > 0.8e9
    assert abs(windows[0].covered[1] - begun) < 0.3e9, "up to the moment of asking"
    assert any(message.time_ns == windows[0].covered[1] for message in messages if isinstance(message, Delivered))
    assert not any(isinstance(message, Hole) for message in messages[-2:])
    assert took < 1.3
    assert target.poll() is None, "the server goes on"


def watch_to_the_end(collector: PySpyThreads) -> list[Message]:
    found: list[Message] = []
    until = time.monotonic() + 20
    while not any(isinstance(message, Hole) for message in found):
        assert time.monotonic() < until, "the collector never noticed the end"
        found += collector.sample()
        time.sleep(0.05)
    with pytest.raises(CollectorError, match="has ended") as caught:
        watch(collector, until)
    assert caught.value.state == "absent"
    return found


def test_a_process_that_is_no_python_is_said_to_be_none() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(CollectorError, match="No process of this server is Python") as caught:
            PySpyThreads(Tree(described(sleeper.pid, "server", python=False))).open()
        assert caught.value.state == "absent"
        collector = PySpyThreads(Tree(described(sleeper.pid, "server")))
        collector.open()
        try:
            messages = watch(collector, time.monotonic() + 2.5)
        finally:
            collector.close()
        assert any("no Python" in message.reason for message in messages if isinstance(message, Hole))
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process_is_refused_with_the_remedy(target: subprocess.Popen[bytes]) -> None:
    refusal = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        error = check_right(target.pid)
        os.write(refusal[1], (error.says if error is not None else "allowed").encode())
        os._exit(0)
    os.waitpid(child, 0)
    says = os.read(refusal[0], 4096).decode()
    os.close(refusal[0])
    os.close(refusal[1])
    assert "belongs to user id 0 and we are 65534" in says
    assert "sudo gaptop record -o - | gaptop open -" in says
