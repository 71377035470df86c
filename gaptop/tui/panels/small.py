"""What a terminal shows that is too small for the picture."""

from __future__ import annotations

from gaptop.tui import palette
from gaptop.tui.cells import Piece
from gaptop.tui.layout import SMALLEST
from gaptop.tui.scene import Scene
from gaptop.tui.text import wrap


def lines(scene: Scene, width: int, height: int) -> list[list[Piece]]:
    """The reason, then the sentence that is always on screen."""
    reason = f"terminal too small ({width}x{height}): gaptop needs {SMALLEST[0]}x{SMALLEST[1]}."
    end = scene.glyphs.ellipsis
    rows = wrap(reason, width, height, end)
    rows += wrap(scene.clean(scene.assessment.sentence), width, height - len(rows), end)
    return [[(row, palette.PLAIN)] for row in rows]
