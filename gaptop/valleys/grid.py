"""The fixed time grid: steps of any length are averaged into cells of one length that start at the stream's start.

Cells make detection independent of how readings were batched: a cell's value depends on the readings alone.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gaptop.timeline.types import Floats, Steps

CELL: Final = 0.05
"""Seconds a cell: a quarter of the shortest window seen on real devices (167-200 ms), so that edges stay sharp."""

MIN_COVER: Final = 0.5
"""A cell less than half covered is not measured."""


def cell_of(t: float) -> int:
    """Index of the first cell that starts at or after ``t``."""
    return math.ceil(t / CELL - 1e-6)


def last_cell(t: float) -> int:
    """Index one past the last cell that ends at or before ``t``."""
    return math.floor(t / CELL + 1e-6)


def cells(steps: Steps, first: int, end: int) -> Floats:
    """Time-weighted means of the cells ``first`` .. ``end - 1``; NaN where under half a cell is covered."""
    edges = np.arange(first, end + 1, dtype=np.float64) * CELL
    if len(steps.start) == 0:
        return np.full(end - first, np.nan)
    # Overlapping steps would count twice: each step starts where the one before it ended, at the earliest.
    start = np.maximum(steps.start, np.concatenate(([-np.inf], np.maximum.accumulate(steps.end)[:-1])))
    length = np.maximum(steps.end - start, 0.0)
    bounds = np.column_stack((start, steps.end)).ravel()
    bounds = np.maximum.accumulate(bounds)
    seconds = np.column_stack((np.zeros_like(length), length)).ravel().cumsum()
    area = np.column_stack((np.zeros_like(length), length * steps.value)).ravel().cumsum()
    covered = np.diff(np.interp(edges, bounds, seconds))
    total = np.diff(np.interp(edges, bounds, area))
    means = np.full(end - first, np.nan)
    good = covered >= MIN_COVER * CELL
    means[good] = total[good] / covered[good]
    return means
