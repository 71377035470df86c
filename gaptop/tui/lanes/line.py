"""Columns as a line: two values a cell in braille, one without, nothing across what is missing; risers in braille.

The line is the mean. A stroke from it (without braille a dim mark) reaches down to the lowest value of the column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from gaptop.timeline.types import Columns, Cover
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Row
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.lane import BLANK, absence

_LEFT: Final = (0x40, 0x04, 0x02, 0x01)
_RIGHT: Final = (0x80, 0x20, 0x10, 0x08)
"""Braille dots of a cell's two columns, bottom first."""

Reach = tuple[int, int] | None
"""Lowest and highest level of a half column; None without a value."""


def line_rows(halves: Columns, top: float, height: int, color: str, glyphs: Glyphs) -> list[Row]:
    """``halves`` has two values a cell, and one more in front, which only tells where the line comes from."""
    levels = (len(glyphs.levels) or 4) * height
    heights, lows = (
        np.clip(np.floor(np.nan_to_num(part) / top * levels), 0, levels - 1).astype(int).tolist()
        for part in (halves.mean, halves.low)
    )
    covers = halves.cover.tolist()
    reaches = [
        _reach(heights[i], heights[i - 1] if covers[i - 1] == Cover.DATA else None, lows[i])
        if covers[i] == Cover.DATA
        else None
        for i in range(1, len(heights))
    ]
    stacks: list[tuple[Cell, ...]] = []
    for cell in range(len(reaches) // 2):
        left, right = reaches[2 * cell], reaches[2 * cell + 1]
        if left is None and right is None:
            stacks.append((absence(max(covers[2 * cell + 1], covers[2 * cell + 2]), glyphs),) * height)
        elif glyphs.levels:
            at = 2 * cell + (1 if right is None else 2)
            known = [lows[2 * cell + half] for half, reach in ((1, left), (2, right)) if reach is not None]
            stacks.append(_plain(heights[at], min(known), height, color, glyphs.levels))
        else:
            stacks.append(_braille(left, right, height, color))
    return [list(row) for row in zip(*stacks, strict=True)] if stacks else [[] for _ in range(height)]


def _reach(level: int, before: int | None, low: int) -> tuple[int, int]:
    if before is None or abs(level - before) < 2:
        return (low, level)
    return (low, before - 1) if before > level else (min(before + 1, low), level)


@lru_cache(maxsize=8192)
def _braille(left: Reach, right: Reach, height: int, color: str) -> tuple[Cell, ...]:
    style = palette.hue(color)
    cells: list[Cell] = []
    for row in range(height - 1, -1, -1):
        bits = 0
        for reach, dots in ((left, _LEFT), (right, _RIGHT)):
            if reach is not None:
                bits |= sum(dot for i, dot in enumerate(dots) if reach[0] <= row * 4 + i <= reach[1])
        cells.append((chr(0x2800 + bits), style) if bits else BLANK)
    return tuple(cells)


@lru_cache(maxsize=1024)
def _plain(level: int, low: int, height: int, color: str, levels: str) -> tuple[Cell, ...]:
    cells = [BLANK] * height
    for at, dim in ((low, True), (level, low // len(levels) == level // len(levels) and low < level)):
        row, step = divmod(at, len(levels))
        cells[height - 1 - row] = (levels[step], palette.hue(color, dim=dim))
    return tuple(cells)
