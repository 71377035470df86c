"""The keys worth knowing, in one line; each can be clicked."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from gaptop.tui import palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.keys import FOOTER, KEYS, WORDS

_ACTIONS: Final = {binding.id: binding.action for binding in KEYS}
_STYLES: Final = {name: Style(bold=True, meta={"@click": f"app.{_ACTIONS[name]}"}) for name, _ in FOOTER}


def pieces(width: int, following: bool) -> list[Piece]:
    """From left to right by use; those at the end give way, but never help and quit."""
    groups = []
    for name, keys in FOOTER:
        word = WORDS[name]
        if name == "pause" and not following:
            word = "resume"
        groups.append((name, [(f" {keys}", _STYLES[name]), (f" {word} ", palette.DIM)]))
    while width_of(piece for _, group in groups for piece in group) > width and len(groups) > 2:
        del groups[-3]
    return [piece for _, group in groups for piece in group]
