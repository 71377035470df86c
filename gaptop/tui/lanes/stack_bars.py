"""Two shares of one column on top of each other: what lies below in solid bars, what lies on it in a texture.

The texture (not the hue) tells them apart, so that a screen without colours reads the same. A cell holds one of them:
the upper share begins in the cell above the lower one's top and has its own height, as far as there is room.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gaptop.timeline.types import Columns, Cover
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Row
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.bars import bar_cells, levels_of
from gaptop.tui.lanes.lane import absence


@dataclass(frozen=True, slots=True)
class Look:
    """``any_above``: an upper share of any size has a cell, in a single row the only one. Else it is rounded as its
    height says, and a single row shows the larger one."""

    lower: str
    upper: str
    any_above: bool = True


def joint_cover(lower: Columns, upper: Columns) -> np.ndarray:
    """A column where one of them is missing is missing; one that never was there leaves the other alone."""
    there = [np.where(part.cover == Cover.NOTHING, Cover.DATA, part.cover) for part in (lower, upper)]
    worst = np.maximum(*there)
    nothing = (lower.cover == Cover.NOTHING) & (upper.cover == Cover.NOTHING)
    return np.where(nothing, Cover.NOTHING, worst).astype(np.uint8)


def stack_rows(
    lower: Columns,
    upper: Columns,
    top: float,
    height: int,
    look: Look,
    glyphs: Glyphs,
    rest: np.ndarray | None = None,
) -> list[Row]:
    """``height`` rows of cells; ``top`` is the value at the upper edge. ``rest`` is a third share, told by dots."""
    parts = len(glyphs.bars) * height
    below, above = np.nan_to_num(lower.mean), np.nan_to_num(upper.mean)
    fills = zip(
        joint_cover(lower, upper).tolist(),
        levels_of(below, top, parts),
        levels_of(lower.low, top, parts),
        levels_of(above, top, parts, least=look.any_above),
        levels_of(upper.low, top, parts, least=look.any_above),
        [0] * len(below) if rest is None else levels_of(below + above + rest, top, parts),
        strict=True,
    )
    stacks = [
        _column(level, low, on_top, sure, full, height, look, glyphs)
        if cover == Cover.DATA
        else (absence(cover, glyphs),) * height
        for cover, level, low, on_top, sure, full in fills
    ]
    return [list(row) for row in zip(*stacks, strict=True)] if stacks else [[] for _ in range(height)]


@lru_cache(maxsize=16384)
def _column(
    level: int, low: int, on_top: int, sure: int, full: int, height: int, look: Look, glyphs: Glyphs
) -> tuple[Cell, ...]:
    """The cells of one column, top first. Levels count partial fills from the bottom; ``sure`` is the least of what is
    ``on_top``, ``full`` the height up to which the rest reaches."""
    parts = len(glyphs.bars)
    cells = list(reversed(bar_cells(level, low, height, look.lower, glyphs)))
    used = -(-level // parts)
    if on_top and (height > 1 or look.any_above or on_top >= level):
        begin = min(used, height - 1)
        shared = max(0, level - begin * parts)  # what the lower share loses of the last row's cell
        for row in range(begin, min(height, begin - (-(on_top + shared) // parts))):
            at = (row - begin) * parts
            shaded = sure <= at and sure < on_top or (height == 1 and low == 0 < level)
            texture = glyphs.texture[_texture(on_top + shared - at, parts, len(glyphs.texture))]
            cells[row] = (texture, palette.hue(look.upper, dim=shaded))
            used = row + 1
        if height > 1 and level and not any(character in glyphs.bars for character, _ in cells):
            # Its minimum of 0 stood in the first row and its mean in the last one, which the upper share took.
            cells[0] = (glyphs.bars[-1], palette.hue(look.lower, dim=True))
    for row in range(max(used, 1), -(-full // parts)):
        cells[row] = (glyphs.idle, palette.DIM)
    return tuple(reversed(cells))


def _texture(fill: int, parts: int, steps: int) -> int:
    """The index of the texture that fills a cell so far; the lowest at least."""
    return min(max(-(-fill * steps // parts), 1), steps) - 1
