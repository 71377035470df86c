"""A swept picture in a real terminal, a suspended screen, and a terminal that goes while it is suspended."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from tests.e2e.processes import alive, family, wait_for, with_words
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
SOON = 3.0


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (80, 24)])
def test_w_sweeps(tmp_path: Path, steady_lab: LabInfo, columns: int, rows: int) -> None:
    with Terminal(tmp_path, columns, rows) as terminal:
        terminal.type(f"{GAPTOP} {steady_lab.url}; echo code=$?")
        terminal.until("LIVE", "20 run", seconds=30)
        terminal.press("w")
        terminal.until("LIVE sweep", "│now")
        first = beam(terminal)
        wait_for(lambda: beam(terminal) > first, "now moves to the right", 5)
        terminal.press("Space")
        terminal.until("PAUSED")
        # A frame may be captured while the terminal has read half of it.
        wait_for(lambda: "│now" not in terminal.screen(), "a held picture has no beam", 5)
        terminal.press("End")
        terminal.until("LIVE sweep", "│now")
        terminal.press("?")
        terminal.until("bytes/s", "swept")
        terminal.press("Escape")
        terminal.until("LEDGER", "LIVE sweep")
        terminal.press("w")
        terminal.until("The picture rolls")
        wait_for(lambda: "│now" not in terminal.screen(), "a rolling picture has no beam", 5)
        terminal.press("q")
        terminal.until("code=0")


def beam(terminal: Terminal) -> int:
    """The column of the terminal where the axis says that now is."""
    return next((row.index("│now") for row in terminal.screen().splitlines() if "│now" in row), -1)


def test_a_screen_is_suspended_and_comes_back(tmp_path: Path, steady_lab: LabInfo) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {steady_lab.url}")
        terminal.until("LIVE", "20 run", seconds=30)
        terminal.press("w")
        terminal.until("LIVE sweep")
        running = family(terminal.shell)
        suspend(terminal)
        assert "LEDGER" not in terminal.screen()
        flags = {name: terminal.ask(name) for name in ("alternate_on", "mouse_any_flag", "cursor_flag")}
        assert flags == {"alternate_on": "0", "mouse_any_flag": "0", "cursor_flag": "1"}
        time.sleep(2.0)
        [probe] = with_words(running, "gaptop.probe")
        assert alive(probe), "measuring goes on"
        terminal.type("fg")
        shown = terminal.until("LIVE sweep", "20 run", "LEDGER")
        assert "silent" not in shown
        assert with_words(family(terminal.shell), "gaptop.probe") == [probe]
        first = beam(terminal)
        wait_for(lambda: beam(terminal) != first, "the picture moves again", 5)
        terminal.press("q")
        wait_for(lambda: family(terminal.shell) == [], "nothing is left", 5)


def test_a_terminal_that_goes_while_the_screen_is_suspended_ends_everything(
    tmp_path: Path, steady_lab: LabInfo
) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {steady_lab.url}")
        terminal.until("LIVE", "20 run", seconds=30)
        wait_for(lambda: with_words(family(terminal.shell), "py-spy record"), "threads are recorded")
        running = family(terminal.shell)
        suspend(terminal)
        terminal.kill_server()
        end = time.monotonic() + SOON
        while left := [process.command for process in running if alive(process.pid)]:
            assert time.monotonic() < end, f"left after {SOON:g} s: {left}"
            time.sleep(0.03)
    assert all(alive(process.pid) for process in steady_lab.processes)


def suspend(terminal: Terminal) -> None:
    [screen] = with_words(family(terminal.shell), GAPTOP)
    terminal.press("C-z")
    wait_for(lambda: stopped(screen), "the screen is stopped", 5)


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_slow_ssh_connection_has_the_picture_swept(tmp_path: Path, steady_lab: LabInfo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        sshd, _ = listener.accept()
        with sshd:
            sshd.setblocking(False)
            with suppress(BlockingIOError):
                while sshd.send(bytes(65536)):
                    pass
            ends = (*client.getsockname(), *sshd.getsockname())
            with Terminal(tmp_path, environ={"SSH_CONNECTION": " ".join(map(str, ends))}) as terminal:
                terminal.type(f"{GAPTOP} {steady_lab.url}; echo code=$?")
                terminal.until("This link is slow", "LIVE sweep", seconds=40)
                terminal.press("q")
                terminal.until("code=0")
