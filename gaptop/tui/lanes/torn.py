"""Columns that hold a hole beside what was measured: zoomed out, a hole narrower than a column must not vanish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gaptop.tui import palette
from gaptop.tui.cells import Cell, Row
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.lane import BLANK
from gaptop.tui.scene import Scene

_HALF: Final = 0.5


def torn_columns(scene: Scene, sources: Iterable[str]) -> dict[int, float]:
    """Columns (from the left) that declared holes of these sources reach into, and the share that the holes take."""
    view, shares = scene.view, dict[int, float]()
    for source in sources:
        own: dict[int, float] = {}
        for hole in scene.timeline.holes(source, view.start, view.end):
            start, end = max(hole.start, view.start), min(hole.end, view.end)
            for column in range(view.column_at(start), min(view.column_at(end), view.right) + 1):
                left, right = column * view.seconds, (column + 1) * view.seconds
                if (seconds := min(end, right) - max(start, left)) > 0:
                    own[column - view.first] = own.get(column - view.first, 0.0) + seconds / view.seconds
        for column, share in own.items():
            shares[column] = max(shares.get(column, 0.0), share)
    return shares


def tear(rows: list[Row], torn: Mapping[int, float], glyphs: Glyphs, *, line: bool) -> list[Row]:
    """Hatch the top of a bar, and what a line leaves blank; in a single row only what is missing for the most part."""
    if not torn:
        return rows
    hole: Cell = (glyphs.hole, palette.DIM)
    torn_rows = [list(row) for row in rows]
    for column, share in torn.items():
        if len(rows) == 1:
            if share >= _HALF:
                torn_rows[0][column] = hole
        elif not line:
            torn_rows[0][column] = hole
        else:
            for row in torn_rows:
                if row[column] == BLANK:
                    row[column] = hole
    return torn_rows
