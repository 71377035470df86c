"""The supervisor with real probe processes: deaths, restarts, holes, and no orphan whatever happens to the parent."""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaptop.probe.supervisor import ProbeProcess
from gaptop.recording.lines import Batch, Event, Frames, Header, Hole, Line, Source, Tick, decode

FAKE = (sys.executable, str(Path(__file__).with_name("fake_probe.py")))


class Watched:
    """A supervised probe whose lines the test reads."""

    def __init__(self, *collectors: str, **config: Any) -> None:
        self.queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.probe = ProbeProcess({"feeds": list(collectors), **config}, self.queue, command=FAKE)
        self.lines: list[Line] = []
        self.probe.start()

    def until(self, wanted: Callable[[Line], bool], seconds: float = 15.0) -> Line:
        end = time.monotonic() + seconds
        for line in self.lines:
            if wanted(line):
                return line
        while True:
            line_or_none = decode(self.queue.get(timeout=max(0.01, end - time.monotonic())))
            assert line_or_none is not None
            self.lines.append(line_or_none)
            if wanted(line_or_none):
                return line_or_none

    def drain(self) -> None:
        while not self.queue.empty():
            line = decode(self.queue.get())
            assert line is not None
            self.lines.append(line)


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def begin(*collectors: str, **config: Any) -> Watched:
        started.append(Watched(*collectors, **config))
        return started[-1]

    yield begin
    for watched in started:
        watched.probe.stop()


def is_event(what: str) -> Callable[[Line], bool]:
    return lambda line: isinstance(line, Event) and line.what == what


def is_reading(line: Line) -> bool:
    return isinstance(line, Batch)


def child_of(pid: int) -> int:
    """The pid of the probe that is a child of a process; waits for it. This process may have other children."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = [
            int(text)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for text in (task / "children").read_text().split()
            if runs_the_probe(int(text))
        ]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("no child")


def runs_the_probe(pid: int) -> bool:
    try:
        return FAKE[1].encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_probe_is_started_again_and_the_hole_is_marked_and_told(
    watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watched = watch("steady")
    watched.until(is_reading)
    watched.until(lambda line: isinstance(line, Tick) and line.t > 0.5)
    os.kill(child_of(os.getpid()), signal.SIGKILL)
    event = watched.until(is_event("probe_restarted"))
    assert isinstance(event, Event)
    assert event.data == {"signal": "SIGKILL"}
    (hole,) = [line for line in watched.lines if isinstance(line, Hole)]
    readings = [line for line in watched.lines if isinstance(line, Batch)]
    assert hole.src == "fake/steady"
    assert hole.start == readings[-1].t[-1]
    assert hole.end == event.t
    assert event.says == (
        "the measuring process died (by SIGKILL) and is started again, with a hole of at least "
        f"{hole.end - hole.start:.1f} s in what is seen; if it goes on dying, run gaptop doctor --report."
    )
    assert event.says in caplog.text
    after = watched.until(lambda line: isinstance(line, Batch) and line.t[0] > event.t)
    assert isinstance(after, Batch)
    assert after.t[0] - hole.start < 5
    assert sum(isinstance(line, Header) for line in watched.lines) == 1
    assert sum(isinstance(line, Source) for line in watched.lines) == 2
    assert watched.probe.ended() is None


def test_a_crash_inside_a_library_is_such_a_death(watch: Callable[..., Watched]) -> None:
    watched = watch("aborts")
    event = watched.until(is_event("probe_restarted"))
    assert isinstance(event, Event)
    assert event.data == {"signal": "SIGABRT"}
    watched.until(lambda line: isinstance(line, Batch) and line.t[0] > event.t)


def ended(probe: ProbeProcess) -> str:
    end = time.monotonic() + 30
    while (says := probe.ended()) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    return says


def test_a_probe_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "probe.log"
    lines: list[bytes] = []
    probe = ProbeProcess({"log": str(log)}, lines.append, command=(sys.executable, "-c", "import nothing_at_all"))
    probe.start()
    says = ended(probe)
    assert "died 5 times within a minute (the last time: with exit code 1)" in says
    assert str(log) in says
    assert probe.failed
    assert lines == []
    assert log.read_text().count("No module named 'nothing_at_all'") == 5


@pytest.mark.parametrize(("number", "named"), [(signal.SIGSEGV, True), (signal.SIGABRT, True), (signal.SIGKILL, False)])
def test_a_library_that_crashes_each_time_is_a_reason_to_leave_it_out(number: signal.Signals, named: bool) -> None:
    no_core = "import os, resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0))"
    dies = (sys.executable, "-c", f"{no_core}; os.kill(os.getpid(), {number:d})")
    probe = ProbeProcess({}, lambda raw: None, command=dies)
    probe.start()
    says = ended(probe)
    assert number.name in says
    assert ("start gaptop with --no-gpu" in says) == named


def test_its_own_end_is_no_death(watch: Callable[..., Watched]) -> None:
    watched = watch("steady", duration=0.6)
    ended(watched.probe)
    watched.drain()
    assert not watched.probe.failed
    assert not any(isinstance(line, Event | Hole | Frames) for line in watched.lines)


@pytest.mark.parametrize("collector", ["steady", "hangsforever", "neverfinishes"])
def test_stop_takes_less_than_three_seconds(watch: Callable[..., Watched], collector: str) -> None:
    watched = watch(collector)
    watched.until(lambda line: isinstance(line, Tick) and line.t > 0.4)
    pid = child_of(os.getpid())
    begun = time.monotonic()
    watched.probe.stop()
    assert time.monotonic() - begun < 3
    assert not alive(pid)
    assert watched.probe.ended() == "the measuring process was stopped."


def test_what_a_recorder_says_at_last_is_delivered_by_stop(watch: Callable[..., Watched]) -> None:
    watched = watch("records")
    watched.until(lambda line: isinstance(line, Tick) and line.t > 0.4)
    watched.probe.stop()
    watched.drain()
    assert [line.src for line in watched.lines if isinstance(line, Batch)] == ["fake/records"]
    assert isinstance(watched.lines[-1], Tick)


def test_a_probe_that_does_not_obey_is_killed(watch: Callable[..., Watched]) -> None:
    watched = watch("steady")
    watched.until(is_reading)
    pid = child_of(os.getpid())
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    watched.probe.stop()
    assert time.monotonic() - begun < 3.2
    assert not alive(pid)


def test_a_writer_that_fails_ends_the_probe() -> None:
    def full(raw: bytes) -> None:
        raise OSError(28, "No space left on device")

    probe = ProbeProcess({"feeds": ["steady"]}, full, command=FAKE)
    probe.start()
    assert "No space left on device" in ended(probe)
    assert probe.failed


PARENT = """
import sys, time
from gaptop.probe.supervisor import ProbeProcess
probe = ProbeProcess({"feeds": sys.argv[2:]}, lambda raw: None, command=(sys.executable, sys.argv[1]))
probe.start()
time.sleep(60)
"""


@pytest.mark.parametrize("collectors", [["steady"], ["steady", "hangsforever"]])
def test_a_killed_parent_takes_its_probe_with_it(collectors: list[str]) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, FAKE[1], *collectors])
    try:
        probe = child_of(parent.pid)
        time.sleep(0.8)
        assert alive(probe)
        parent.kill()
        parent.wait()
        end = time.monotonic() + 2
        while alive(probe):
            assert time.monotonic() < end, "the probe outlives its parent"
            time.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()


def test_a_light_import() -> None:
    code = (
        "import sys, gaptop.probe.supervisor, gaptop.recording.reader, gaptop.recording.spool\n"
        "heavy = {'asyncio', 'aiohttp', 'numpy', 'textual', 'psutil', 'pynvml'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_probe_itself_runs_without_anything_to_measure() -> None:
    lines: list[bytes] = []
    probe = ProbeProcess({"gpu": False, "duration": 0.6, "headers": {"Authorization": "Bearer hunter2"}}, lines.append)
    probe.start()
    assert ended(probe) == "the measuring process has done what it was asked to do."
    kinds = [type(decode(raw)) for raw in lines]
    assert kinds[0] is Header
    assert kinds.count(Tick) >= 3
    assert b"hunter2" not in b"".join(lines)
