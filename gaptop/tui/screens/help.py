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
from gaptop.tui.keys import KEYS
from gaptop.tui.lanes.rack import NAMES
from gaptop.tui.text import clean, wrap
from gaptop.valleys.model import LETTERS

_MARGIN: Final = 24
"""Columns left of a text, and of the scroll bar."""
_LINES: Final = 12


class Help(ModalScreen[None]):
    """Closes by Esc, ? or q, without quitting."""

    BINDINGS = [
        Binding(
            "escape,question_mark,f1,q,enter,space", "dismiss", "close", tooltip="Back to the screen", id="close_help"
        ),
        Binding("up,k", "scroll(-1)", "up", show=False, tooltip="Scroll up", id="help_up"),
        Binding("down,j", "scroll(1)", "down", show=False, tooltip="Scroll down", id="help_down"),
    ]

    def __init__(
        self, glyphs: Glyphs, facts: Sequence[tuple[str, str]], devices: Sequence[tuple[str, str]] = ()
    ) -> None:
        """``facts`` are (name, value) of this run: log, costs, versions; ``devices`` the same of each device."""
        super().__init__()
        self._glyphs = glyphs
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
        for binding in KEYS:
            if binding.id and not binding.id.startswith("lane_"):
                self._pair(text, _keys(binding.key, self._glyphs.ascii), binding.tooltip)
        self._pair(text, "1-9", "Fold or unfold a lane; where some of its lanes are left out, first bring all of them:")
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


def _keys(keys: str, ascii_only: bool) -> str:
    names = {
        "question_mark": "?",
        "plus": "+",
        "minus": "-",
        "equals_sign": "=",
        "comma": ",",
        "full_stop": ".",
        "left": "left" if ascii_only else "←",
        "right": "right" if ascii_only else "→",
        "shift+left": "shift+left",
    }
    return " ".join(names.get(key, key) for key in keys.split(","))


def _reading(glyphs: Glyphs) -> list[tuple[str, str]]:
    return [
        ("height", "the mean of the column; shaded down to its minimum, which leaves a notch"),
        (glyphs.zero, "a measured zero"),
        (glyphs.hole, "a hole: the source did not deliver; on top of a bar: for a part of the column"),
        (glyphs.pending, "pending: not delivered yet"),
        ("blank", "nothing could be there"),
        (
            f"{glyphs.high} {glyphs.medium} {glyphs.low}",
            "confidence of a valley: high, medium, low; dim while provisional",
        ),
        (glyphs.plateau, "a plateau: recurring gaps shorter than the device's window W"),
        ("v", "a shallow dip: one gap shorter than W, or several; too little for a valley"),
        (
            "!",
            "a driver reported an error, a device went, came back or was cut anew, the server restarted, or our own "
            "call was slow or held back: the lines below say which; , and . move the cursor onto an older one",
        ),
        (glyphs.selected, "a lane that the explained verdict rests on"),
        ("right edge", "the newest value, or the one under the cursor; (age) when older than two periods"),
    ]
