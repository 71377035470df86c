"""Sizes and kinds of terminals: tiny, plain, without colour, without Unicode."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from gaptop.lab.launch import Lab
from tests.e2e.processes import wait_for
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
COLOUR = re.compile(r"\x1b\[(?:[\d;:]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[\d;:]*m")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few seconds of the lab."""
    path = tmp_path_factory.mktemp("recording") / "lab.gaptop"
    with Lab() as lab:
        url = lab.start("steady").url
        subprocess.run([GAPTOP, "record", "-o", path, "--for", "4s", url], check=True, timeout=60, capture_output=True)
    return path


def test_resized_to_nothing_and_back(tmp_path: Path, recording: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} open {recording}; echo code=$?")
        terminal.until("end of the recording", "LEDGER", "KV used", seconds=30)
        terminal.resize(20, 5)
        tiny = terminal.until("too small")
        assert "LEDGER" not in tiny
        assert max(map(len, tiny.splitlines())) <= 20
        terminal.resize(1, 1)
        for columns, rows in ((80, 24), (120, 40)):
            terminal.resize(columns, rows)
            wait_for(partial(fills, terminal, columns), f"it fills {columns} columns")
            assert "too small" not in terminal.until("end of the recording", "LEDGER", "q quit", "valleys")
        terminal.press("q")
        terminal.until("code=0")


def fills(terminal: Terminal, columns: int) -> bool:
    return max(map(len, terminal.screen().splitlines())) == columns


def shown_at_80_by_24(tmp_path: Path, recording: Path, environ: Mapping[str, str | None]) -> str:
    """The screen with its escape sequences, after the first whole frame."""
    with Terminal(tmp_path, 80, 24, environ) as terminal:
        terminal.type(f"{GAPTOP} open {recording}; echo code=$?")
        terminal.until("end of the recording", "LEDGER", "running", "q quit", seconds=30)
        shown = terminal.screen(escapes=True)
        terminal.press("q")
        terminal.until("code=0")
        assert terminal.ask("alternate_on") == "0"
        return shown


def test_at_80_by_24_with_colour(tmp_path: Path, recording: Path) -> None:
    shown = shown_at_80_by_24(tmp_path, recording, {})
    assert COLOUR.search(shown), "else the tests below that look for colour prove nothing"
    assert "│" in shown


def test_no_color(tmp_path: Path, recording: Path) -> None:
    assert not COLOUR.search(shown_at_80_by_24(tmp_path, recording, {"NO_COLOR": "1"}))


@pytest.mark.parametrize(
    "environ", [{"LANG": "C"}, {"LANG": None}, {"TERM": "dumb"}, {"TERM": "vt100"}], ids=lambda environ: str(environ)
)
def test_terminals_without_unicode_get_ascii(
    tmp_path: Path, recording: Path, environ: Mapping[str, str | None]
) -> None:
    shown = shown_at_80_by_24(tmp_path, recording, environ)
    strange = sorted({character for character in shown if not character.isascii()})
    assert strange == []


def test_a_recording_that_was_cut_says_so_and_opens(tmp_path: Path, recording: Path) -> None:
    whole = recording.read_bytes()
    (tmp_path / "cut.gaptop").write_bytes(whole[: len(whole) * 2 // 3])
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} open cut.gaptop; echo code=$?")
        terminal.until(
            "vLLM", "LEDGER", "running", "cut.gaptop was read up to its last whole line only: its last part is missing"
        )
        terminal.press("q")
        terminal.until("code=0")
