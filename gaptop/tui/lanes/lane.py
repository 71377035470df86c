"""What a lane is, and how its absence is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gaptop.timeline.types import Cover
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece, Row
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.scene import Scene

BLANK: Final[Cell] = (" ", palette.PLAIN)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A lane of some height. Row 0 is the top; ``scale`` and ``values`` are the texts left and right of the cells."""

    label: str
    cells: list[Row]
    scale: tuple[str, ...]
    values: tuple[tuple[Piece, ...], ...]
    supports: bool = False
    """The explained verdict rests on what this lane shows."""
    told: bool = False
    """The rows are a sentence, not columns of time."""
    under: str = ""
    """What stands below the label."""


class Lane(Protocol):
    """``digit`` is the key that folds it; several lanes may share one."""

    key: str
    digit: int

    def present(self, scene: Scene) -> bool:
        """Whether there is (or could soon be) anything to show."""
        ...

    def draw(self, scene: Scene, height: int) -> Drawn: ...


def absence(cover: int, glyphs: Glyphs) -> Cell:
    """The cell of a column without a value."""
    if cover == Cover.HOLE:
        return (glyphs.hole, palette.DIM)
    if cover == Cover.PENDING:
        return (glyphs.pending, palette.DIM)
    return BLANK


def sentence_rows(text: str, width: int, height: int, scene: Scene) -> list[Row]:
    """An empty lane says why, in its top row."""
    from gaptop.tui.cells import row_of
    from gaptop.tui.text import fit

    rows = [row_of(fit(text, width, scene.glyphs.ellipsis), palette.DIM)]
    rows.extend([BLANK] * width for _ in range(height - 1))
    return rows
