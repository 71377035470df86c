"""The terminal itself: what it can draw, whether it is still there, and how much we write to it."""

from __future__ import annotations

import os
import termios
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from textual.driver import Driver

_PLAIN_TERMS: Final = ("dumb", "vt", "linux", "ansi", "cons", "unknown")
_COERCED: Final = ("C.UTF-8", "C.utf8", "UTF-8")
_GRACE: Final = 2.0


def needs_ascii(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's type or locale rules out block and braille characters.

    Python turns a C locale into LC_CTYPE=C.UTF-8 at its start (PEP 538), which says nothing of the terminal.
    """
    term = environ.get("TERM", "")
    language = environ.get("LANG", "")
    character_type = environ.get("LC_CTYPE", "")
    if character_type in _COERCED and language in ("", "C", "POSIX"):
        character_type = ""
    chosen = (environ.get("LC_ALL") or character_type or language).lower().replace("-", "")
    return "utf8" not in chosen or not term or term.startswith(_PLAIN_TERMS)


def is_lost(descriptor: int = 0) -> bool:
    """Whether the terminal behind the descriptor has gone (a closed window, a dropped connection).

    Textual's input thread takes the end of its input for "nothing yet" and would spin on it for ever.
    """
    try:
        termios.tcgetattr(descriptor)
    except termios.error:
        return True
    return False


def leave_soon() -> None:
    """End the process a little later if it cannot end itself: a lost terminal can block its writer for good."""
    timer = threading.Timer(_GRACE, os._exit, (129,))
    timer.daemon = True
    timer.start()


def counting(driver: type[Driver], count: Callable[[int], None]) -> type[Driver]:
    """The driver class with every write counted in bytes."""

    class CountingDriver(driver):  # type: ignore[misc, valid-type]
        def write(self, data: str) -> Any:
            count(len(data.encode(errors="replace")))
            return super().write(data)

    return CountingDriver
