"""The terminal that a screen reads its keys from, wherever its standard input comes from."""

from __future__ import annotations

import os
import sys

from gaptop.cli.exits import Exit, Stop

_INSTEAD = "with | cat behind it the command prints a report instead."


def take_keys() -> None:
    """Put the terminal on descriptor 0, where the screen reads its keys: at the end of another input it would wait for
    keys for ever, and work for nothing. Raises Stop (exit 2) where there is none."""
    if sys.__stdin__ is None:
        raise Stop(f"standard input is closed, so the screen cannot read keys; {_INSTEAD}", Exit.USAGE)
    if os.isatty(0) or os.environ.get("TEXTUAL_DRIVER"):  # a page of gaptop web sends its keys itself
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise Stop(f"no terminal to read keys from, so the screen cannot be used; {_INSTEAD}", Exit.USAGE) from None
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = os.fdopen(0, closefd=False)
