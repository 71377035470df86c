"""A terminal that is closed, or that was never on standard input: nothing is left, and nothing works for itself."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import Process, alive, family, wait_for, with_words
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

SOON = 5.0


class Closable:
    """gaptop in a terminal of its own, which the test holds the other end of."""

    def __init__(self, folder: Path, arguments: list[str], hangup_ignored: bool) -> None:
        self.end, own = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

        def begin() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if hangup_ignored:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            [GAPTOP, *arguments],
            stdin=own,
            stdout=own,
            stderr=own,
            env=environ,
            cwd=folder,
            start_new_session=True,
            preexec_fn=begin,
        )
        os.close(own)

    def until(self, text: bytes, seconds: float = 40.0) -> None:
        """Read, as a terminal does, until that came."""
        seen, end = b"", time.monotonic() + seconds
        while text not in seen:
            assert time.monotonic() < end, f"not within {seconds:g} s: {text!r}"
            if select.select([self.end], [], [], 0.2)[0]:
                seen += os.read(self.end, 65536)

    def all(self) -> list[Process]:
        return [Process(self.process.pid, "the screen"), *family(self.process.pid)]


@contextlib.contextmanager
def closable(folder: Path, arguments: list[str], hangup_ignored: bool) -> Iterator[Closable]:
    terminal = Closable(folder, arguments, hangup_ignored)
    try:
        yield terminal
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal.end)
        terminal.process.kill()
        terminal.process.wait()


def gone_soon(processes: list[Process], screen: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SOON
    while left := [process.command for process in processes if alive(process.pid)]:
        screen.poll()
        assert time.monotonic() < end, f"left after {SOON:g} s: {left}"
        time.sleep(0.03)


@pytest.mark.parametrize("hangup_ignored", [False, True])
def test_a_closed_terminal_ends_the_screen_and_all_its_children(tmp_path: Path, hangup_ignored: bool) -> None:
    with closable(tmp_path, ["demo", "steady"], hangup_ignored) as terminal:
        terminal.until(b"LIVE")
        wait_for(lambda: with_words(terminal.all(), "py-spy record"), "threads are recorded")
        running = terminal.all()
        for words in ("gaptop.probe", "gaptop.lab.live"):
            assert with_words(running, words), words
        os.close(terminal.end)
        gone_soon(running, terminal.process)
    assert list(tmp_path.glob("*.gaptop")) == [], "that is no bug, of which something must be kept"
    log = (tmp_path / "state" / "gaptop" / "gaptop.log").read_text()
    assert "gaptop broke" not in log


def a_server_is_here() -> bool:
    """Whether gaptop would find a server here."""
    done = subprocess.run([GAPTOP, "--no-gpu", "--for", "1s"], capture_output=True, timeout=60)
    return done.returncode != 3


@pytest.mark.parametrize("hangup_ignored", [False, True])
def test_a_closed_terminal_ends_the_wait_for_a_server(tmp_path: Path, hangup_ignored: bool) -> None:
    if a_server_is_here():
        pytest.skip("a server runs on this host, so nothing waits for one")
    with closable(tmp_path, ["--no-gpu"], hangup_ignored) as terminal:
        terminal.until(b"looking for an LLM server")
        running = terminal.all()
        os.close(terminal.end)
        gone_soon(running, terminal.process)


@needs_tmux
def test_keys_come_from_the_terminal_where_standard_input_is_at_its_end(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} demo steady </dev/null; echo code=$?")
        terminal.until("LIVE", "q quit", seconds=40)
        terminal.press("Space")
        terminal.until("PAUSED")
        terminal.press("q")
        terminal.until("code=0")


@needs_tmux
def test_without_standard_input_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} demo steady <&-; echo code=$?")
        shown = terminal.until("code=2", seconds=40)
    assert "cannot read keys" in shown
    assert "| cat" in shown
