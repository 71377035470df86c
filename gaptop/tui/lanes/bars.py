"""Columns as bars: the mean is the height, what lies above the minimum is shaded, and the minimum leaves a notch.

A column that holds a single zero among ones is a tall shaded bar on the mark for zero: it cannot hide in a mean.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gaptop.timeline.types import Columns, Cover
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Row
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.lane import BLANK, absence


def bar_rows(columns: Columns, top: float, height: int, color: str | None, glyphs: Glyphs) -> list[Row]:
    """``height`` rows of cells; ``top`` is the value at the upper edge."""
    parts = len(glyphs.bars) * height
    levels = levels_of(columns.mean, top, parts)
    lows = levels_of(columns.low, top, parts)
    stacks = [
        bar_cells(level, low, height, color, glyphs) if cover == Cover.DATA else (absence(cover, glyphs),) * height
        for level, low, cover in zip(levels, lows, columns.cover.tolist(), strict=True)
    ]
    return [list(row) for row in zip(*stacks, strict=True)] if stacks else [[] for _ in range(height)]


def levels_of(values: np.ndarray, top: float, parts: int, *, least: bool = True) -> list[int]:
    """Eighths of a cell; with ``least`` a value that is not zero has at least one."""
    filled = np.fmin(np.fmax(values, 0.0), top)  # fmax takes 0 for what is missing
    levels = np.rint(filled * (parts / top))
    if least:
        levels[(filled > 0) & (levels == 0)] = 1
    result: list[int] = levels.astype(int).tolist()
    return result


@lru_cache(maxsize=16384)
def bar_cells(level: int, low: int, height: int, color: str | None, glyphs: Glyphs) -> tuple[Cell, ...]:
    """The cells of one column, top first. Levels count partial fills from the bottom."""
    parts = len(glyphs.bars)
    bright, shade = palette.hue(color), palette.hue(color, dim=True)
    cells: list[Cell] = []
    for row in range(height):
        fill = min(max(level - row * parts, 0), parts)
        solid = min(max(low - row * parts, 0), parts)
        holds_low = solid < parts and (solid > 0 or (row == 0 and low == 0))
        if fill == 0:
            cells.append((glyphs.zero, shade) if row == 0 else BLANK)
        elif solid >= fill:
            cells.append((glyphs.bars[fill - 1], bright))
        elif holds_low and level > (row + 1) * parts:
            cells.append((glyphs.bars[solid - 1] if solid else glyphs.zero, bright))
        elif holds_low and (fill - solid) * 4 <= parts:
            cells.append((glyphs.bars[fill - 1], bright))
        else:
            cells.append((glyphs.bars[fill - 1], shade))
    return tuple(reversed(cells))
