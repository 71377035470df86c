"""Columns as a line: two values a cell in braille, risers between neighbours, nothing across what is missing."""

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
_LEVELS_ASCII: Final = '_-"'

Reach = tuple[int, int] | None
"""Lowest and highest level of a half column; None without a value."""


def line_rows(halves: Columns, top: float, height: int, color: str, glyphs: Glyphs) -> list[Row]:
    """``halves`` has two values a cell, and one more in front, which only tells where the line comes from."""
    levels = (3 if glyphs.ascii else 4) * height
    filled = np.nan_to_num(halves.mean, nan=0.0)
    heights = np.clip(np.floor(filled / top * levels), 0, levels - 1).astype(int).tolist()
    covers = halves.cover.tolist()
    reaches = [
        _reach(heights[i], heights[i - 1] if covers[i - 1] == Cover.DATA else None) if covers[i] == Cover.DATA else None
        for i in range(1, len(heights))
    ]
    stacks: list[tuple[Cell, ...]] = []
    for cell in range(len(reaches) // 2):
        left, right = reaches[2 * cell], reaches[2 * cell + 1]
        if left is None and right is None:
            stacks.append((absence(max(covers[2 * cell + 1], covers[2 * cell + 2]), glyphs),) * height)
        elif glyphs.ascii:
            stacks.append(_plain(heights[2 * cell + (1 if right is None else 2)], height, color))
        else:
            stacks.append(_braille(left, right, height, color))
    return [list(row) for row in zip(*stacks, strict=True)] if stacks else [[] for _ in range(height)]


def _reach(level: int, before: int | None) -> tuple[int, int]:
    if before is None or abs(level - before) < 2:
        return (level, level)
    return (level, before - 1) if before > level else (before + 1, level)


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
def _plain(level: int, height: int, color: str) -> tuple[Cell, ...]:
    row, step = divmod(level, 3)
    cells = [BLANK] * height
    cells[height - 1 - row] = (_LEVELS_ASCII[step], palette.hue(color))
    return tuple(cells)
