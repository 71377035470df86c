"""``gaptop demo`` in a real terminal, as a person uses it: the first frame, the keys, a snapshot, the end."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.processes import family, wait_for, with_words
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
LANES = ("busy", "power", "queue", "decode", "KV used", "engine", "valleys", "LEDGER", "q quit")


def test_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(tmp_path) as terminal:
        begun = time.monotonic()
        terminal.type(f"{GAPTOP} demo steady; echo code=$?")
        terminal.until("gaptop", "q quit", seconds=30)
        first = time.monotonic() - begun
        terminal.until("LIVE", "SIMULATED", *LANES, "100 %", seconds=30)
        with capsys.disabled():
            print(f"\nfirst frame after {first:.2f} s, all lanes with readings after {time.monotonic() - begun:.2f} s")
        pause_and_return(terminal)
        help_opens_and_esc_closes_it(terminal)
        snapshot_opens_again(terminal)
        quit_leaves_nothing_behind(terminal)


def pause_and_return(terminal: Terminal) -> None:
    terminal.press("Space")
    terminal.until("PAUSED, live is +")
    before = ahead(terminal)
    wait_for(lambda: ahead(terminal) >= before + 1.0, "live moves on while the view is held", 5)
    terminal.press("End")
    assert "PAUSED" not in terminal.until("LIVE")


def ahead(terminal: Terminal) -> float:
    """How far live is ahead of the view, in seconds."""
    match = re.search(r"live is \+([\d.]+) s", terminal.screen())
    assert match is not None
    return float(match[1])


def help_opens_and_esc_closes_it(terminal: Terminal) -> None:
    terminal.press("?")
    shown = terminal.until("read-only", "Keys")
    log = terminal.folder / "state" / "gaptop" / "gaptop.log"
    assert str(log) in "".join(shown.split()), "the help names the log, however long its path"
    assert log.is_file()
    terminal.press("Escape")
    assert "read-only" not in terminal.until("LEDGER")
    for _ in range(3):
        terminal.press("Escape")
    time.sleep(0.6)
    assert "code=" not in terminal.until("LEDGER", "LIVE")


def snapshot_opens_again(terminal: Terminal) -> None:
    terminal.press("s")
    shown = terminal.until("Snapshot written")
    [snapshot] = terminal.folder.glob("*.gaptop")
    assert snapshot.name in shown
    assert snapshot.stat().st_mode & 0o777 == 0o600
    done = subprocess.run([GAPTOP, "report", snapshot, "--json"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["source"]["simulated"] is True
    assert report["source"]["servers"][0]["engine"] == "vllm"
    assert report["window"]["seconds"] > 2


def quit_leaves_nothing_behind(terminal: Terminal) -> None:
    running = family(terminal.shell)
    assert with_words(running, "gaptop.probe")
    assert with_words(running, "gaptop.lab.live")
    terminal.press("q")
    terminal.until("code=0")
    assert "LEDGER" not in terminal.screen()
    assert terminal.ask("alternate_on") == "0"
    assert terminal.ask("cursor_flag") == "1"
    assert terminal.ask("mouse_any_flag") == "0"
    terminal.type("clear; stty -a")
    assert not re.search(r"-(echo|icanon|isig|opost)\b", terminal.until("icanon"))
    assert family(terminal.shell) == []
