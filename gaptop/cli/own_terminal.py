"""The terminal that a screen reads its keys from and is drawn on, wherever standard input and standard error go."""

from __future__ import annotations

import os
import sys

from gaptop.cli.exits import Exit, Stop

_INSTEAD = "with | cat behind it the command prints a report instead."


def take_terminal() -> None:
    """Give the screen the terminal: for its keys on descriptor 0, for at the end of another input it would wait for
    keys for ever, and work for nothing; and to be drawn on, which Textual does where ``sys.__stderr__`` goes. What is
    written to ``sys.stderr`` and to descriptor 2 still goes where it was sent. Raises Stop (exit 2) where there is no
    terminal."""
    if sys.__stdin__ is None:
        raise Stop(f"standard input is closed, so the screen cannot read keys; {_INSTEAD}", Exit.USAGE)
    if os.environ.get("TEXTUAL_DRIVER"):  # a page of gaptop web sends its keys itself
        return
    if not os.isatty(0):
        _take_keys()
    if sys.__stderr__ is None or not sys.__stderr__.isatty():
        # Of its encoding: the picture is made for that of the terminal, which standard output is.
        encoding = sys.stdout.encoding
        sys.__stderr__ = os.fdopen(os.dup(1), "w", encoding=encoding, errors="backslashreplace")  # type: ignore[misc]


def _take_keys() -> None:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise Stop(f"no terminal to read keys from, so the screen cannot be used; {_INSTEAD}", Exit.USAGE) from None
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = os.fdopen(0, closefd=False)
