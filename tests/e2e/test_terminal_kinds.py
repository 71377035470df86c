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
MANY = re.compile(r"\x1b\[(?:[\d;:]*;)?[34]8[;:]5")
TRUE = re.compile(r"\x1b\[(?:[\d;:]*;)?[34]8[;:]2")
FEW = re.compile(r"\x1b\[(?:[0-9];)*(?:3[0-7]|9[0-7])m")
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
        terminal.until("end of the recording", "LEDGER", "queue", "q quit", seconds=30)
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


@pytest.mark.parametrize("term", ["screen-256color", "screen", "vt100"])
def test_colours_are_those_that_the_terminal_has(tmp_path: Path, recording: Path, term: str) -> None:
    shown = shown_at_80_by_24(tmp_path, recording, {"TERM": term, "GAPTOP_THEME": "nord"})
    many, few = bool(MANY.search(shown)), bool(FEW.search(shown))
    assert (many, few) == {"screen-256color": (True, False), "screen": (False, True), "vt100": (False, False)}[term]
    assert not TRUE.search(shown)


def test_a_terminal_of_all_colours_shows_the_theme(tmp_path: Path, recording: Path) -> None:
    shown = shown_at_80_by_24(
        tmp_path, recording, {"TERM": "screen-256color", "COLORTERM": "truecolor", "GAPTOP_THEME": "nord"}
    )
    assert "48;2;46;52;64" in shown, "Nord's own background"


def test_keys_and_looks_of_a_configuration(tmp_path: Path, recording: Path) -> None:
    folder = tmp_path / "config" / "gaptop"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'symbols = "ascii"\nthme = "nord"\n[keys]\nquit = "f5"\npause = "f6"\n[lanes]\nfold = ["decode"]\n'
    )
    with Terminal(tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "config")}) as terminal:
        terminal.type(f"{GAPTOP} open {recording}; echo code=$?")
        shown = terminal.until("end of the recording", "config.toml:2: thme is no setting; did you mean theme?")
        assert "folded: 4 decode" in shown
        terminal.press("Escape")
        terminal.until("f6 play", "f5 quit")
        terminal.press("q", "?")
        terminal.until("gaptop is read-only", "config.toml")
        terminal.press("Escape")
        terminal.press("F5")
        terminal.until("code=0")


def test_a_recording_that_was_cut_says_so_and_opens(tmp_path: Path, recording: Path) -> None:
    whole = recording.read_bytes()
    (tmp_path / "cut.gaptop").write_bytes(whole[: len(whole) * 2 // 3])
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} open cut.gaptop; echo code=$?")
        # News of more than one line stands over the ledger for a while.
        terminal.until("vLLM", "queue", "cut.gaptop was read up to its last whole line only: its last part is missing")
        terminal.press("Escape")
        terminal.until("vLLM", "LEDGER", "queue")
        terminal.press("q")
        terminal.until("code=0")
