"""What a recorder has used, told in parts and to the end."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaptop_collectors.host import pyspy_recorder
from gaptop_collectors.host.pyspy_command import Launcher
from gaptop_collectors.host.pyspy_recorder import Recorder

SPIN = """
import sys, time
until = time.process_time() + 0.3
while time.process_time() < until:
    pass
print("Sampling process", flush=True)
sys.stdin.read()
until = time.process_time() + 0.2
while time.process_time() < until:
    pass
"""


def test_its_cpu_time_is_told_once_and_to_the_end() -> None:
    with selectors.DefaultSelector() as selector:
        recorder = Recorder(Launcher((sys.executable, "-c", SPIN), None), (), 50, selector)
        told, parts = 0.0, 0
        until = time.monotonic() + 20
        while not recorder.poll():
            assert time.monotonic() < until
            for key, _ in selector.select(0.05):
                recorder.readable(key.fd)
            told, parts = told + recorder.newly_used(), parts + 1
        told += recorder.newly_used()
        assert parts > 2
        assert told == pytest.approx(recorder.cpu_seconds)
        assert 0.5 <= told < 2.0
        assert 0.3 <= recorder.start_seconds <= told
        assert recorder.newly_used() == 0.0


def test_where_the_kernel_tells_no_nanoseconds_its_ticks_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    fine = pyspy_recorder._cpu_seconds(os.getpid())
    real: Callable[..., Any] = open

    def zero(path: str, how: str) -> Any:
        return real("/dev/null" if path.endswith("schedstat") else path, how)

    monkeypatch.setattr("builtins.open", zero)
    rough = pyspy_recorder._cpu_seconds(os.getpid())
    assert rough >= 0.05
    assert rough == pytest.approx(fine, abs=0.2 + 0.2 * fine)


def test_a_process_that_is_gone_used_nothing_more() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not Path(f"/proc/{ended.pid}").exists()
    assert pyspy_recorder._cpu_seconds(ended.pid) == 0.0


WAITS = """
import sys
print("Sampling process", flush=True)
for _ in range(4):
    sys.stdin.readline()
"""


def test_it_has_sampled_once_its_main_thread_has_waited_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *arguments, **options: real(*arguments, **{**options, "stdin": read})
    )
    with selectors.DefaultSelector() as selector:
        begun = time.monotonic_ns()
        recorder = Recorder(Launcher((sys.executable, "-c", WAITS), None), (), 50, selector)
        os.close(read)
        try:
            wait_for(recorder, selector, lambda: recorder.live_ns is not None)
            assert begun < recorder.heard_ns <= time.monotonic_ns()
            time.sleep(0.3)
            assert not recorder.sampled, "it waits for its sampler"
            for _ in range(2):
                os.write(write, b"a sample\n")
                time.sleep(0.1)
            wait_for(recorder, selector, lambda: recorder.sampled)
        finally:
            os.close(write)
            recorder.abandon()


def test_where_the_kernel_does_not_tell_how_often_it_waited_it_is_taken_to_have_sampled() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert pyspy_recorder._waits(ended.pid) is None


def wait_for(recorder: Recorder, selector: selectors.BaseSelector, come: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not come():
        assert time.monotonic() < until
        for key, _ in selector.select(0.05):
            recorder.readable(key.fd)
