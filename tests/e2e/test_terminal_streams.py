"""Standard output and standard error sent elsewhere: the screen keeps to the terminal, and errors go where they were
sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from tests.e2e import breaking
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
BREAKS = f"{sys.executable} {breaking.__file__}"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.gaptop"
    command = [GAPTOP, "lab", "run", "steady", "--seconds", "15s", "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path


@pytest.mark.parametrize("errors", ["2>errors", "2>&-", "<run.gaptop 2>errors"])
def test_the_screen_is_drawn_on_the_terminal_where_standard_error_goes_elsewhere(
    errors: str, recording: Path, tmp_path: Path
) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} open run.gaptop {errors}; echo code=$?")
        terminal.until("LEDGER", "▸ ", "q quit", seconds=30)
        terminal.resize(100, 30)
        terminal.until("LEDGER", "q quit")
        terminal.press("q")
        terminal.until("code=0")
        assert terminal.ask("alternate_on") == "0"
        assert terminal.ask("mouse_any_flag") == "0"
    assert not (tmp_path / "errors").exists() or (tmp_path / "errors").read_bytes() == b""


def test_what_breaks_the_screen_is_told_where_standard_error_goes(recording: Path, tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{BREAKS} key run.gaptop open run.gaptop 2>errors; echo code=$?")
        terminal.until("LEDGER", "q quit", seconds=30)
        terminal.press("v")
        shown = terminal.until("code=70", seconds=40)
        assert terminal.ask("alternate_on") == "0"
    assert "this is a bug" not in shown
    told = (tmp_path / "errors").read_text()
    assert told.startswith("gaptop: this is a bug in gaptop")
    assert told.count("\n") == 1


def test_the_waiting_screen_too(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} http://127.0.0.1:9 2>errors; echo code=$?")
        terminal.until("looking for an LLM server", "What to do", "q quit", seconds=30)
        terminal.press("q")
        terminal.until("code=3")


def test_a_file_gets_the_report_and_the_terminal_is_told_so(steady_lab: LabInfo, tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {steady_lab.url} >report; echo code=$?")
        shown = terminal.until("no screen", seconds=15)
        assert "standard output is no terminal, so there is no screen: watching for 10 s, then the report" in "".join(
            shown.splitlines()
        )
        terminal.until("code=0", seconds=40)
    assert steady_lab.url in (tmp_path / "report").read_text()
