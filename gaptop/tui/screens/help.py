"""The help: keys, how to read the screen, where the log is, what gaptop costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gaptop.tui import palette
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.keymap import Keymap, shown_all, usual
from gaptop.tui.keys import KEYS, NAMES
from gaptop.tui.text import clean, wrap
from gaptop.valleys.model import LETTERS

_MARGIN: Final = 24
"""Columns left of a text, and of the scroll bar."""
_LINES: Final = 12
CLOSE_HELP: Final = "close_help"
_CLOSING: Final = ("escape", "enter", "space")
_FOLDING: Final = "Fold or unfold a lane; where some of its lanes are left out, first bring all of them:"


def closing(keys: Keymap) -> list[str]:
    """The keys that close the help."""
    return list(dict.fromkeys([*_CLOSING, *keys["help"], *keys["quit"]]))


class Help(ModalScreen[None]):
    """Closes by Esc, Enter, space, and the keys of help and quit, without quitting."""

    BINDINGS = [
        Binding(",".join(closing(usual())), "dismiss", "close", tooltip="Back to the screen", id=CLOSE_HELP),
        Binding("up,k", "scroll(-1)", "up", show=False, tooltip="Scroll up", id="help_up"),
        Binding("down,j", "scroll(1)", "down", show=False, tooltip="Scroll down", id="help_down"),
    ]

    def __init__(
        self,
        glyphs: Glyphs,
        keys: Keymap,
        facts: Sequence[tuple[str, str]],
        devices: Sequence[tuple[str, str]] = (),
    ) -> None:
        """``facts`` are (name, value) of this run: log, costs, versions; ``devices`` the same of each device; ``keys``
        are those in force."""
        super().__init__()
        self._glyphs = glyphs
        self._keys = keys
        self._facts = facts
        self._devices = devices

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(self._text(), id="help-text")

    def action_scroll(self, rows: int) -> None:
        self.query_one("#help", VerticalScroll).scroll_relative(y=rows * 3, animate=False)

    def _text(self) -> Text:
        text = Text(no_wrap=False)
        self._title(text, "gaptop is read-only: it changes nothing in the server, on the device or on the host")
        for name, value in self._facts:
            self._pair(text, name, value)
        self._title(text, "Keys")
        lanes = {key.id for key in KEYS if key.id.startswith("lane_")}
        as_usual = all(self._keys[name] == keys for name, keys in usual().items() if name in lanes)
        for key in KEYS:
            if key.id not in lanes or not as_usual:
                self._pair(text, shown_all(self._keys[key.id], self._glyphs.ascii), key.tooltip)
        self._pair(text, "1-9" if as_usual else "lanes", _FOLDING)
        self._pair(text, "", ", ".join(f"{digit} {name}" for digit, name in NAMES))
        self._pair(text, "mouse", "Click selects a valley, the wheel zooms at the pointer")
        self._title(text, "How to read it")
        for name, value in _reading(self._glyphs):
            self._pair(text, name, value)
        if self._devices:
            self._title(text, "Devices: how finely each is seen")
        for name, value in self._devices:
            self._pair(text, name, value)
        self._title(text, "Causes")
        for cause, letter in LETTERS.items():
            text.append(f"  {letter} ", palette.cause_style(cause, bold=True))
            text.append(f"{palette.TITLES[cause].lower()}\n")
        self._title(text, "Threads: small letters work, capitals wait or stall")
        for activity, letter in palette.LETTERS.items():
            text.append(f"  {letter} ", palette.activity_style(activity))
            text.append(f"{activity.replace('_', ' ')}")
        return text

    def _title(self, text: Text, title: str) -> None:
        text.append(("\n" if text else "") + title + "\n", palette.BOLD)

    def _pair(self, text: Text, name: str, value: str) -> None:
        lines = wrap(clean(value, self._glyphs.ascii), self.app.size.width - _MARGIN, _LINES) or [""]
        for index, line in enumerate(lines):
            text.append(f"  {'' if index else clean(name, self._glyphs.ascii):<16} ", palette.BOLD)
            text.append(line + "\n")


def _reading(glyphs: Glyphs) -> list[tuple[str, str]]:
    return [
        ("height", "the mean of the column; shaded down to its minimum, which leaves a notch"),
        (glyphs.zero, "a measured zero"),
        (
            glyphs.texture[-1],
            "on top of a bar: requests that wait, above those that run; below a thread's letters: the share of time "
            f"that it waited for a core, above the share on one ({glyphs.idle} asleep)",
        ),
        (glyphs.hole, "a hole: the source did not deliver; on top of a bar: for a part of the column"),
        (glyphs.pending, "pending: not delivered yet"),
        ("blank", "nothing could be there"),
        (
            f"{glyphs.high} {glyphs.medium} {glyphs.low}",
            "confidence of a valley: high, medium, low; dim while provisional",
        ),
        (
            f"N{glyphs.high * 2}K{glyphs.high}N",
            "a letter inside a valley's line: from there on a part of it has that letter's cause, in its colour; the "
            'letters at both ends name the cause of the whole. "parts" below the picture lists them',
        ),
        (glyphs.plateau, "a plateau: recurring gaps shorter than the device's window W"),
        ("v", "a shallow dip: one gap shorter than W, or several; too little for a valley"),
        (
            "!",
            "a driver reported an error, a device went, came back or was cut anew, the server restarted, or our own "
            "call was slow or held back: the lines below say which; , and . move the cursor onto an older one",
        ),
        (glyphs.selected, "a lane that the explained verdict rests on"),
        (
            f"{glyphs.cursor}now",
            "in a sweep: the newest column is left of it, the oldest one right of it, and all others stand still, so "
            "that little is sent. Looking back (pause, pan, click) shows the picture from left to right",
        ),
        (
            "right edge",
            "the newest value, or the one under the cursor; (age) when older than two periods; below it the range of "
            "the cursor's column, or the bounds of its window",
        ),
    ]
