"""Real recorders on a process that logs its own phases: nobody looks away, shares and clocks are right, the rate is
raised and lowered, processes come and go, and a killed gaptop leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gaptop_collectors.collector import Hole, Message, SourceInfo, Stacks
from gaptop_collectors.host import pyspy_driver
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_command import check_right
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_roller import DELAY_TICKS
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import Role, ServerProcess
from tests.fakes.phases_truth import NAMES, PhaseTarget, allowed, first_sight, shares, true_shares

PATIENCE = 60.0


class Tree:
    """Processes that the test sets."""

    def __init__(self, *pids: int) -> None:
        self.processes = [described(pid) for pid in pids]

    def current(self) -> Sequence[ServerProcess]:
        return list(self.processes)

    def why_empty(self) -> str:
        return "" if self.processes else "The server's process has ended."


def described(pid: int, role: Role = "engine") -> ServerProcess:
    usage = read_usage(pid)
    assert usage is not None
    return ServerProcess(pid, role, "phases", True, usage.started)


class Watched:
    """A collector that runs until a condition holds, and the recorders that it started."""

    def __init__(self, tree: Tree, monkeypatch: pytest.MonkeyPatch, *, fast: bool = False) -> None:
        self.recorders: list[tuple[list[str], Recorder]] = []
        self.messages: list[Message] = []
        noted = self.recorders

        class Noted(Recorder):
            def __init__(self, launcher, arguments, rate, selector) -> None:  # type: ignore[no-untyped-def]
                super().__init__(launcher, arguments, rate, selector)
                noted.append((list(arguments), self))

        monkeypatch.setattr(pyspy_driver, "Recorder", Noted)
        self.collector = PySpyThreads(tree, fast)
        self.collector.open()

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it never came"
            self.messages += self.collector.sample()
            time.sleep(0.05)

    def windows(self, pid: int) -> list[Stacks]:
        found = [message for message in self.messages if isinstance(message, Stacks)]
        return [window for window in found if window.source == f"threads/{pid}"]

    def says(self) -> list[str]:
        return [message.says for message in self.messages if isinstance(message, SourceInfo)]


@pytest.fixture(autouse=True)
def _may_read() -> None:
    if check_right(os.getppid()) is not None:
        pytest.skip("the stacks of another process may not be read here (needs CAP_SYS_PTRACE or root)")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[PhaseTarget]:
    with PhaseTarget(tmp_path / "phases.json", 6) as started:
        yield started


def test_shares_and_clock_hold_against_the_log_and_nobody_looks_away(
    target: PhaseTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(Tree(target.pid), monkeypatch, fast=True)
    try:
        watched.until(lambda: len(watched.windows(target.pid)) >= 8)
    finally:
        watched.collector.close()
    phases = target.end()
    windows = watched.windows(target.pid)
    spans = [span for window in windows for span in window.spans if span.tid == target.pid]
    for before, after in zip(watched.recorders, watched.recorders[1:], strict=False):
        asked, live = before[1].asked_ns, after[1].live_ns
        assert asked is None or (live is not None and live < asked), "the next one is live before one is asked to end"
    assert not any(isinstance(message, Hole) for message in watched.messages)
    start, end = windows[0].covered[0], windows[-1].covered[1]
    truth, seen = true_shares(phases, start, end), shares(spans, start, end)
    # Half of the rate: where the machine is crowded py-spy comes late to many ticks.
    bounds = {name: allowed(truth[name], 50, (end - start) / 1e9) for name in NAMES}
    assert [name for name in NAMES if abs(seen[name] - truth[name]) > bounds[name]] == []
    # All windows together: the luckiest of 100 phases is seen 0.1 ms after it began, and none before.
    found = [first_sight(w.spans, phases, round(DELAY_TICKS * 1e9 / 100), w.covered[0]) for w in windows]
    assert all(late is None or late > -2_000_000 for late in found)
    assert min(late for late in found if late is not None) < 5_000_000


def test_something_happening_raises_the_rate_for_a_while(target: PhaseTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(Tree(target.pid), monkeypatch)
    try:
        watched.until(lambda: len(watched.windows(target.pid)) >= 2)
        watched.collector.boost(2.0)
        watched.until(lambda: any("at this moment" in says for says in watched.says()))
        begun = len(watched.recorders)
        watched.until(lambda: len(watched.recorders) > begun and "at this moment" not in watched.says()[-1])
    finally:
        watched.collector.close()
    rates = [recorder.rate for _, recorder in watched.recorders]
    fastest = max(range(len(rates)), key=lambda n: rates[n])
    assert rates[fastest] >= 1.5 * max(rates[fastest - 1], rates[fastest + 1])
    for arguments, recorder in watched.recorders:
        assert "--nonblocking" in arguments
        assert not {"-s", "--subprocesses"} & set(arguments)
        assert str(recorder.rate) in arguments


def test_workers_that_come_and_go_are_followed(
    target: PhaseTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(target.pid)
    watched = Watched(tree, monkeypatch)
    try:
        watched.until(lambda: bool(watched.windows(target.pid)))
        with PhaseTarget(tmp_path / "second.json", 2) as second:
            tree.processes.append(described(second.pid, "worker"))
            watched.until(lambda: bool(watched.windows(second.pid)))
        del tree.processes[1:]
        reason = f"process {second.pid} has ended"
        watched.until(lambda: any(isinstance(m, Hole) and m.reason == reason for m in watched.messages))
        count = len(watched.windows(target.pid))
        watched.until(lambda: len(watched.windows(target.pid)) > count)
    finally:
        watched.collector.close()


GAPTOP = """
import sys, time
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from tests.e2e.test_host_pyspy_truth import Tree
collector = PySpyThreads(Tree(int(sys.argv[1])), fast=True)
collector.open()
while True:
    for message in collector.sample():
        print(type(message).__name__, flush=True)
    time.sleep(0.05)
"""


def test_a_killed_gaptop_leaves_neither_a_recorder_nor_a_file(target: PhaseTarget, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", GAPTOP, str(target.pid)]
    before = set(os.listdir(tempfile.gettempdir()))
    gaptop = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    assert gaptop.stdout is not None
    while gaptop.stdout.readline() != "Stacks\n":
        assert gaptop.poll() is None
    gaptop.send_signal(signal.SIGKILL)
    gaptop.wait()
    gaptop.stdout.close()
    end = time.monotonic() + PATIENCE
    while recorders_of(target.pid):
        assert time.monotonic() < end, "a recorder lives on"
        time.sleep(0.05)
    assert list(folder.iterdir()) == []
    assert not [name for name in set(os.listdir(tempfile.gettempdir())) - before if "stacks" in name]
    assert target.process.poll() is None, "the server goes on"


def recorders_of(pid: int) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if b"record" in words and str(pid).encode() in words and state != b"Z":
            found.append(name)
    return found
