"""Several series of one kind as one lane: their mean per column, where all of them were measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Columns, Cover, SeriesId, States


def mean_columns(timeline: Timeline, ids: Sequence[SeriesId], start: float, end: float, n: int) -> Columns:
    """The mean over several devices in each of n equal columns; ``low`` and ``high`` are the extremes of any of them.

    A column counts only where every series has data: over fewer of them a mean would move without any device having
    moved. Elsewhere the values are NaN and ``cover`` says why: a hole in one is a hole in the mean, else what is not
    delivered yet, else nothing. A series is left out before its own source appeared; of none at all nothing is known.
    """
    parts = [timeline.columns(item, start, end, n) for item in ids]
    if not parts:
        nothing = np.full(max(n, 0), np.nan)
        return Columns(start, end, nothing, nothing, nothing, np.full(max(n, 0), Cover.NOTHING, np.uint8))
    covers = np.stack([part.cover for part in parts])
    there = covers != Cover.NOTHING
    whole = ((covers == Cover.DATA) | ~there).all(axis=0) & there.any(axis=0)
    count = np.where(whole, there.sum(axis=0), 1)
    total = np.where(there, np.stack([part.mean for part in parts]), 0.0).sum(axis=0)
    low = reduce(np.fmin, [part.low for part in parts])
    high = reduce(np.fmax, [part.high for part in parts])
    # The sum of several rounds differently from each of them: equal series must not leave their own bounds.
    mean = np.clip(np.where(whole, total / count, np.nan), low, high)
    low, high = np.where(whole, low, np.nan), np.where(whole, high, np.nan)
    return Columns(start, end, mean, low, high, _cover(covers, whole))


def _cover(covers: States, whole: npt.NDArray[np.bool_]) -> States:
    """Of a column that is not whole: the worst that is known of any series."""
    state = np.full(covers.shape[1], Cover.NOTHING, np.uint8)
    state[(covers == Cover.PENDING).any(axis=0)] = Cover.PENDING
    state[(covers == Cover.HOLE).any(axis=0)] = Cover.HOLE
    state[whole] = Cover.DATA
    return state
