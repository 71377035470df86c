"""The keys worth knowing, in one line; each can be clicked."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from gaptop.tui import palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.keymap import Keymap, hints
from gaptop.tui.keys import FOOTER, KEYS, MARKING
from gaptop.tui.scene import Scene
from gaptop.tui.text import wrap

_ACTIONS: Final = {key.id: key.action for key in KEYS}
_STYLES: Final = {
    hint.id: Style(bold=True, meta={"@click": f"app.{_ACTIONS[hint.id]}"}) for hint in (*FOOTER, *MARKING)
}


def said(scene: Scene, notice: str, width: int, rows: int) -> list[list[Piece]]:
    """A message in at most so many lines, none where there is none."""
    lines = wrap(scene.clean(notice), width - 2, rows, scene.glyphs.ellipsis) if notice else []
    return [[(f" {line}", palette.BOLD)] for line in lines]


def pieces(width: int, pause: str, keys: Keymap, *, marking: bool = False) -> list[Piece]:
    """From left to right by use; those at the end give way, but never help and quit. ``pause`` is what its key would do
    now, ``keys`` are those in force. ``marking``: a range is being selected."""
    groups = []
    for hint, shown in hints(keys, MARKING if marking else FOOTER):
        word = pause if hint.id == "pause" else hint.word
        groups.append((hint.id, [(f" {shown}", _STYLES[hint.id]), (f" {word} ", palette.DIM)]))
    while width_of(piece for _, group in groups for piece in group) > width and len(groups) > 2:
        del groups[-3]
    first: list[Piece] = [(" SELECTING ", palette.PAUSED)] if marking else []
    return [*first, *(piece for _, group in groups for piece in group)]
