"""``gaptop record -o - | gaptop open -``: keys come from the terminal, and the end of one side ends the other."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from gaptop.lab.launch import LabInfo
from tests.e2e.processes import family, wait_for, with_words
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux


def test_keys_work_and_quitting_ends_both_sides(tmp_path: Path, steady_lab: LabInfo) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} record -o - {steady_lab.url} | {GAPTOP} open -; echo code=$?")
        terminal.until("LIVE", "run", seconds=30)
        wait_for(lambda: with_words(family(terminal.shell), "py-spy record"), "threads are recorded")
        terminal.press("Space")
        terminal.until("PAUSED, live is +1")
        terminal.press("?")
        terminal.until("read-only")
        terminal.press("q")
        terminal.until("PAUSED")
        terminal.press("s")
        terminal.until("Snapshot written")
        terminal.press("q")
        terminal.until("code=0")
        assert family(terminal.shell) == [], "the recording side and its helpers have ended too"
        assert "Traceback" not in terminal.screen()
        [snapshot] = tmp_path.glob("*.gaptop")
        done = subprocess.run([GAPTOP, "report", snapshot], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert steady_lab.url in done.stdout


def test_the_end_of_the_recording_is_told_and_the_screen_stays(tmp_path: Path, steady_lab: LabInfo) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} record -o - --for 3s {steady_lab.url} | {GAPTOP} open -; echo code=$?")
        terminal.until("run", "stream ended", "q quit", seconds=30)
        terminal.press("q")
        terminal.until("code=0")


def test_a_password_is_asked_before_the_screen_takes_the_keys(tmp_path: Path, steady_lab: LabInfo) -> None:
    """As ``sudo gaptop record -o - | gaptop open -`` does: sudo reads from the same terminal."""
    sudo = "(printf 'Pass''word: ' >/dev/tty; read -r word </dev/tty; echo \"$word\" >typed; "
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{sudo} exec {GAPTOP} record -o - {steady_lab.url}) | {GAPTOP} open -; echo code=$?")
        terminal.until("Password:")
        wait_for(lambda: len(with_words(family(terminal.shell), "gaptop open")) == 1, "the other side runs")
        time.sleep(2)
        terminal.type("correct horse")
        terminal.until("LIVE", "run", "q quit", seconds=30)
        assert (tmp_path / "typed").read_text() == "correct horse\n"
        terminal.press("q")
        terminal.until("code=0")


def test_a_recording_that_cannot_begin_is_told_in_words(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} record -o - http://127.0.0.1:9 | {GAPTOP} open -; echo code=$?")
        terminal.until("has nothing listening", "nothing came through the pipe", "code=4", seconds=30)
        assert terminal.ask("alternate_on") == "0"
