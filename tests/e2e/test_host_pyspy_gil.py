"""Real GIL shares of a real process, and one real look at its locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gaptop_collectors.collector import Batch, Message, SourceInfo
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_command import check_right
from gaptop_collectors.host.pyspy_gil import WINDOW, GilShares
from gaptop_collectors.target import ServerProcess

TARGET = """
import threading, time
lock = threading.Lock()
lock.acquire()
def wait_for_lock():
    with lock:
        pass
def schedule():
    while True:
        sum(range(10_000))
for n in range(2):
    threading.Thread(target=wait_for_lock, name=f"waiter {n}", daemon=True).start()
threading.Thread(target=schedule, name="busy", daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(10)
"""


@pytest.fixture
def target() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    if check_right(process.pid) is not None:
        process.kill()
        process.wait()
        pytest.skip("the stacks of another process may not be read here (needs CAP_SYS_PTRACE or root)")
    yield process.pid
    assert process.poll() is None, "it was not harmed"
    process.kill()
    process.wait()
    process.stdout.close()


class Tree:
    def __init__(self, pid: int) -> None:
        usage = read_usage(pid)
        assert usage is not None
        self._processes = [ServerProcess(pid, "engine", "engine", True, usage.started)]

    def current(self) -> list[ServerProcess]:
        return self._processes

    def why_empty(self) -> str:
        return ""


def test_the_busy_thread_is_seen_to_hold_the_gil(target: int) -> None:
    collector = GilShares(Tree(target))
    messages: list[Message] = list(collector.open())
    try:
        end = time.monotonic() + 12 * WINDOW
        while not any(isinstance(message, Batch) for message in messages):
            assert time.monotonic() < end, "no window came"
            messages += collector.sample()
            time.sleep(0.1)
    finally:
        collector.close()
    (batch,) = [message for message in messages if isinstance(message, Batch)]
    ((key, (share,)),) = batch.values.items()
    assert share is not None
    assert 0.5 < share <= 1.0, "it does nothing else"
    info = [message for message in messages if isinstance(message, SourceInfo)][-1]
    assert "held by schedule (<string>)" in info.says
    assert key != f"host.gil{{tid={target}}}", "the main thread sleeps"


def look(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gaptop", "stacks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def test_one_look_shows_every_thread_and_who_waits_for_the_same_lock(target: int) -> None:
    done = look(str(target), "--json")
    assert done.returncode == 0, done.stderr
    (process,) = json.loads(done.stdout)["processes"]
    threads = {thread["name"]: thread for thread in process["threads"]}
    assert set(threads) == {"MainThread", "busy", "waiter 0", "waiter 1"}
    assert threads["MainThread"]["frames"][0]["function"] == "<module>"
    assert threads["busy"]["frames"][0]["function"] == "schedule"
    assert threads["MainThread"]["waits_on"] in ("sleep", "futex", None)
    waiting = sorted(threads[name]["tid"] for name in ("waiter 0", "waiter 1"))
    if threads["waiter 0"]["lock"] is not None:  # the system call may be read by those who may trace only
        assert waiting in [sorted(lock["waiting"]) for lock in process["locks"]]
    assert process["stopped"] is False


def test_native_frames_are_had_only_with_leave(target: int) -> None:
    refused = look(str(target), "--native")
    assert refused.returncode == 2
    assert f"--native stops process {target}" in refused.stderr
    assert refused.stdout == ""
    done = look(str(target), "--native", "--yes", "--json")
    if done.returncode == 3 and os.geteuid() != 0:
        pytest.skip("the process may not be stopped here")
    (process,) = json.loads(done.stdout)["processes"]
    waiter = next(thread for thread in process["threads"] if thread["name"] == "waiter 0")
    assert len(waiter["frames"]) > 3, "frames of C code stand above the Python ones"
    assert process["stopped"] is True


def test_a_process_that_is_no_python_is_said_to_be_none() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = look(str(sleeper.pid))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert done.returncode == 3
    assert "no Python" in done.stderr


def test_the_command_loads_no_screen() -> None:
    shown = "import gaptop.cli.stacks, gaptop_collectors.host.pyspy_dump, sys; print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
