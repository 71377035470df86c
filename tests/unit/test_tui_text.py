"""Nothing from outside steers the terminal, and everything fits its cells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gaptop.tui import figures, terminal
from gaptop.tui.text import clean, fit, fit_right, wrap


@given(st.text())
def test_clean_text_has_no_character_that_a_terminal_obeys(text: str) -> None:
    for character in clean(text):
        assert character >= " "
        assert character != "\x7f"
        assert not "\x80" <= character <= "\x9f"
        assert character not in "\u202e\u2066\u200b\u2028"
        assert cell_len(character) >= 1


@given(st.text())
def test_ascii_mode_uses_only_ascii(text: str) -> None:
    assert all(" " <= character <= "~" for character in clean(text, True))


def test_escape_sequences_stay_visible() -> None:
    assert clean("a\x1b]0;pwned\x07b") == "a␛]0;pwned␇b"
    assert clean("a\x1b[2Jb\nc", True) == "a?[2Jb?c"
    assert clean("[bold red]x[/]") == "[bold red]x[/]"


@given(st.text(max_size=30), st.integers(0, 20))
def test_fit_is_exact_in_cells(text: str, width: int) -> None:
    assert cell_len(fit(clean(text), width)) == width
    assert cell_len(fit_right(clean(text), width)) == width


def test_wide_characters_are_cut_between_cells() -> None:
    assert fit("模型模型", 5) == "模型…"
    assert fit("模型模型", 4, "~") == "模~ "


def test_wrap_keeps_every_word_until_rows_run_out() -> None:
    assert wrap("one two three four", 9, 5) == ["one two", "three", "four"]
    assert wrap("one two three four", 9, 2) == ["one two", "three fo…"]
    assert wrap("one", 9, 0) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.31, "0.31"), (7, "7"), (9.96, "10"), (812, "812"), (1234, "1.2k"), (34_000, "34k"), (2e9, "2G")],
)
def test_numbers_keep_what_matters(value: float, text: str) -> None:
    assert figures.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0004, "0.4 ms"), (0.25, "250 ms"), (3.14, "3.1 s"), (42, "42 s"), (250, "4 min 10 s")]
)
def test_lengths_of_time(value: float, text: str) -> None:
    assert figures.seconds(value) == text


def test_a_share_that_is_not_zero_never_reads_as_zero() -> None:
    assert figures.ratio(0.004) == "0.4 %"
    assert figures.ratio(0.0) == "0 %"
    assert figures.ratio(0.0004) == "<0.1 %"
    assert figures.ratio(0.0006) == "0.1 %"


def test_the_clock_is_the_viewers() -> None:
    start = datetime(2025, 3, 14, 23, 59, 58, tzinfo=UTC)
    assert figures.clock(start, 3.25, UTC, 1) == "00:00:01.2"
    assert figures.clock(start, 0.0, timezone(timedelta(hours=2))) == "01:59:58"
    assert figures.clock(None, 3.25, UTC, 1) == "+3.2 s"
    assert figures.moment("nonsense") is None


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({"TERM": "xterm-256color", "LANG": "C.UTF-8"}, False),
        ({"TERM": "xterm-256color", "LANG": "de_DE.utf8"}, False),
        ({"TERM": "vt100", "LANG": "C.UTF-8"}, True),
        ({"TERM": "dumb", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm", "LANG": "C"}, True),
        ({"TERM": "xterm", "LC_ALL": "POSIX", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm", "LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"TERM": "xterm", "LC_CTYPE": "en_GB.UTF-8"}, False),
        ({}, True),
    ],
)
def test_ascii_follows_terminal_and_locale(environ: dict[str, str], plain: bool) -> None:
    assert terminal.needs_ascii(environ) is plain
