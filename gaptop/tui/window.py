"""Columns of one lane, kept while the view rolls: only what can still change is read again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gaptop.timeline.types import Columns, Cover, SourceView

_TENTATIVE_PERIODS = 3.0
"""A value may still change so many periods before the watermark: a gauge holds until its next reading."""

Fetch = Callable[[float, float, int], Columns]
"""(start, end, n) to n columns."""


def settled_until(source: SourceView | None) -> float:
    """The time before which what this source says is final."""
    if source is None:
        return -np.inf
    info = source.info
    window = max(info.window or 0.0, *info.window_by_signal.values(), 0.0)
    return source.watermark - (_TENTATIVE_PERIODS * info.period + window + info.lag)


class Window:
    """A cache of consecutive absolute columns of one width."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._first = 0
        self._final = 0
        """Columns from ``_first`` and before this one are final."""
        self._kept: Columns | None = None

    def read(self, seconds: float, first: int, count: int, settled: float, fetch: Fetch) -> Columns:
        """Columns first … first + count - 1 of that width."""
        stop = first + count
        low = max(first, self._first)
        high = min(stop, self._final)
        kept = self._kept
        if kept is None or seconds != self._seconds or high <= low:
            result = fetch(first * seconds, stop * seconds, count)
        else:
            middle = _cut(kept, low - self._first, high - self._first, low * seconds, high * seconds)
            parts = [middle]
            if first < low:
                parts.insert(0, fetch(first * seconds, low * seconds, low - first))
            if high < stop:
                parts.append(fetch(high * seconds, stop * seconds, stop - high))
            result = _join(parts)
        self._seconds, self._first, self._kept = seconds, first, result
        self._final = min(stop, max(first, int(max(settled, first * seconds) // seconds)))
        return result


def combine(parts: list[Columns], how: str) -> Columns:
    """Several series as one: the ``max`` or their ``sum``. A column where one of them is missing is missing."""
    if len(parts) == 1:
        return parts[0]
    cover = np.stack([part.cover for part in parts])
    there = cover != Cover.NOTHING
    worst = np.where(there, cover, Cover.DATA).max(axis=0)
    merged = np.where(there.any(axis=0), worst, Cover.NOTHING).astype(np.uint8)
    data = merged == Cover.DATA
    fill = 0.0 if how == "sum" else -np.inf
    columns = []
    for name in ("mean", "low", "high"):
        stack = np.stack([np.where(part.cover == Cover.DATA, getattr(part, name), fill) for part in parts])
        columns.append(np.where(data, stack.sum(axis=0) if how == "sum" else stack.max(axis=0), np.nan))
    return Columns(parts[0].start, parts[0].end, columns[0], columns[1], columns[2], merged)


def _cut(columns: Columns, a: int, b: int, start: float, end: float) -> Columns:
    return Columns(start, end, columns.mean[a:b], columns.low[a:b], columns.high[a:b], columns.cover[a:b])


def _join(parts: list[Columns]) -> Columns:
    return Columns(
        parts[0].start,
        parts[-1].end,
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.cover for part in parts]),
    )
