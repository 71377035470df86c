"""The keys worth knowing, in one line; each can be clicked."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from gaptop.tui import palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.keymap import Keymap, hints
from gaptop.tui.keys import FOOTER, KEYS

_ACTIONS: Final = {key.id: key.action for key in KEYS}
_STYLES: Final = {hint.id: Style(bold=True, meta={"@click": f"app.{_ACTIONS[hint.id]}"}) for hint in FOOTER}


def pieces(width: int, pause: str, keys: Keymap) -> list[Piece]:
    """From left to right by use; those at the end give way, but never help and quit. ``pause`` is what its key would do
    now, ``keys`` are those in force."""
    groups = []
    for hint, shown in hints(keys):
        word = pause if hint.id == "pause" else hint.word
        groups.append((hint.id, [(f" {shown}", _STYLES[hint.id]), (f" {word} ", palette.DIM)]))
    while width_of(piece for _, group in groups for piece in group) > width and len(groups) > 2:
        del groups[-3]
    return [piece for _, group in groups for piece in group]
