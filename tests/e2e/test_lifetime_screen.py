"""No orphan whatever happens to the screen, and a screen that outlives its probe."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from gaptop.recording.lines import Batch, Event, Hole, Line
from gaptop.recording.reader import open_stream
from tests.e2e.processes import Process, alive, family, wait_for, with_words
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
SOON = 3.0


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Terminal]:
    """The demo's screen with its lab, its probe and their thread recorders."""
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} demo steady; echo code=$?")
        terminal.until("LIVE", "● device", "● metrics", "20 run", "q quit", seconds=30)
        wait_for(lambda: len(with_words(family(terminal.shell), "py-spy record")) >= 2, "threads are recorded")
        yield terminal


def screen_and_the_rest(terminal: Terminal) -> tuple[int, list[Process]]:
    [screen] = with_words(family(terminal.shell), "gaptop demo")
    rest = family(screen)
    for words in ("gaptop.probe", "gaptop.lab.live", "engine_process", "py-spy record"):
        assert with_words(rest, words), words
    return screen, rest


def all_gone(processes: list[Process]) -> bool:
    return not any(alive(process.pid) for process in processes)


def left_in(processes: list[Process]) -> str:
    return "; ".join(process.command for process in processes if alive(process.pid))


def gone_soon(processes: list[Process]) -> None:
    end = time.monotonic() + SOON
    while not all_gone(processes):
        assert time.monotonic() < end, f"left after {SOON:g} s: {left_in(processes)}"
        time.sleep(0.03)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_screen_takes_everything_with_it(demo: Terminal, number: signal.Signals) -> None:
    screen, rest = screen_and_the_rest(demo)
    os.kill(screen, number)
    gone_soon([Process(screen, "the screen"), *rest])
    demo.until("code=")


def test_a_lost_terminal_ends_everything(demo: Terminal) -> None:
    screen, rest = screen_and_the_rest(demo)
    demo.kill_server()
    gone_soon([Process(screen, "the screen"), *rest])


def test_a_killed_probe_is_replaced_and_its_hole_is_in_the_snapshot(demo: Terminal) -> None:
    screen, rest = screen_and_the_rest(demo)
    [probe] = with_words(rest, "gaptop.probe")
    recorders = [process for process in rest if "py-spy record" in process.command]
    os.kill(probe, signal.SIGKILL)
    gone_soon(recorders)
    wait_for(lambda: with_words(family(screen), "gaptop.probe"), "a new probe runs")
    assert with_words(family(screen), "gaptop.probe") != [probe]
    demo.until("LIVE", "● metrics", "● device")
    time.sleep(2.5)
    demo.press("s")
    demo.until("Snapshot written", "LIVE")
    [snapshot] = demo.folder.glob("*.gaptop")
    lines: list[Line] = list(open_stream(snapshot))
    [event] = [line for line in lines if isinstance(line, Event) and line.what == "probe_restarted"]
    assert event.data == {"signal": "SIGKILL"}
    holes = {line.src: line for line in lines if isinstance(line, Hole) and "died" in line.reason}
    [metrics] = [source for source in holes if source.startswith("metrics/")]
    times = [t for line in lines if isinstance(line, Batch) and line.src == metrics for t in line.t]
    assert holes[metrics].start <= event.t <= holes[metrics].end
    assert not [t for t in times if holes[metrics].start < t < holes[metrics].end]
    assert max(times) > event.t, "readings go on after the restart"


def test_a_screen_on_a_real_server_leaves_the_server_alone(tmp_path: Path, steady_lab: LabInfo) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {steady_lab.url}; echo code=$?")
        terminal.until("LIVE", "20 run", seconds=30)
        wait_for(lambda: with_words(family(terminal.shell), "py-spy record"), "threads are recorded")
        running = family(terminal.shell)
        terminal.kill_server()
        gone_soon(running)
    assert all(alive(process.pid) for process in steady_lab.processes)


def test_a_killed_demo_without_a_screen_leaves_no_lab(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    demo = subprocess.Popen([GAPTOP, "demo", "steady", "--for", "60s"], env=environ, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: with_words(family(demo.pid), "gaptop.probe"), "the probe runs")
        rest = family(demo.pid)
        assert with_words(rest, "gaptop.lab.live")
        demo.kill()
        demo.wait()
        gone_soon(rest)
    finally:
        demo.kill()
        demo.wait()
