"""The terminal itself: what it can draw, whether it is still there, and how much we write to it."""

from __future__ import annotations

import os
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from textual.driver import Driver

from gaptop.tui import figures
from gaptop.tui.looks import ANSI_THEMES, System

_OLD_TERMS: Final = ("dumb", "unknown", *(f"vt{generation}" for generation in range(1, 6)))
_PLAIN_TERMS: Final = (*_OLD_TERMS, "linux", "ansi", "cons")
_COLOURFUL: Final = ("256", "kitty", "alacritty", "foot", "ghostty", "wezterm", "contour", "iterm")
"""Parts of the names of terminals that show 256 colours or more; over SSH their COLORTERM gets lost."""
_COERCED: Final = ("C.UTF-8", "C.utf8", "UTF-8")
_GRACE: Final = 2.0
_LATELY: Final = 10
"""Seconds, the one that runs not counted."""


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


def colours(environ: Mapping[str, str]) -> System:
    """How many colours the terminal shows, by NO_COLOR, COLORTERM and TERM."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or not term or term.startswith(_OLD_TERMS):
        return "none"
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "true"
    return "256" if any(name in term.lower() for name in _COLOURFUL) else "16"


def own_theme(environ: Mapping[str, str]) -> str:
    """The terminal's own colours: for a light background where COLORFGBG tells of one, else for a dark one."""
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    dark, light = ANSI_THEMES
    return light if ground in ("7", "15") else dark


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


class Meter:
    """Bytes by the second in which they were written. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self._total = 0
        self._lately: deque[tuple[int, int]] = deque(maxlen=_LATELY + 1)

    def count(self, size: int) -> None:
        self._total += size
        second = self._second()
        if self._lately and self._lately[-1][0] == second:
            size += self._lately.pop()[1]
        self._lately.append((second, size))

    def says(self) -> str:
        """What the last seconds took, and what it was on average."""
        second = self._second()
        average = self._total / max(self._clock() - self._begun, 0.1)
        said = f"{figures.number(average)} bytes/s on average"
        if second < _LATELY:
            return said
        lately = sum(size for at, size in self._lately if second - _LATELY <= at < second)
        return f"{figures.number(lately / _LATELY)} bytes/s in the last {_LATELY} s, {said}"

    def _second(self) -> int:
        return int(self._clock() - self._begun)


def counting(driver: type[Driver], count: Callable[[int], None]) -> type[Driver]:
    """The driver class with every write counted in bytes."""

    class CountingDriver(driver):  # type: ignore[misc, valid-type]
        def write(self, data: str) -> Any:
            count(len(data.encode(errors="replace")))
            return super().write(data)

        def _run_input_thread(self) -> None:
            """Textual's own would print what this thread dies of; threading.excepthook tells."""
            self.run_input_thread()

    return CountingDriver
