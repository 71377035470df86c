"""A series' observations as pieces, with lowest, highest, integral and covered time of every group of pieces.

A range is answered from whole groups in its middle and from single pieces at its two ends, so that a column over an
hour costs what a column over a second costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaptop.timeline.runs import GROUP, Array, Micros, Runs
from gaptop.timeline.types import Floats
from gaptop.timeline.units import MICRO

_LOW, _HIGH, _SUM, _COVERED = range(4)


class Totals(NamedTuple):
    """Of each range: lowest and highest value (±inf: no data), integral (value times seconds), seconds covered."""

    low: Floats
    high: Floats
    integral: Floats
    covered: Floats


class Pyramid(Runs):
    """Pieces of float32 values. ``increments``: a value is an increment over its piece, and levels are of its rate."""

    __slots__ = ("_increments", "_level", "_seen")

    def __init__(self, increments: bool) -> None:
        super().__init__(np.float32, np.nan)
        self._increments = increments
        # Of each group, and one more: an edge may lie beyond all groups. _seen: microseconds covered before it.
        self._level: Floats = np.zeros((3, 1))
        self._seen: Micros = np.zeros(1, np.int64)

    def rates(self, starts: Micros, ends: Micros, values: Array) -> Floats:
        """What pieces show: their values, or their increments per second."""
        shown: Floats = values.astype(np.float64)
        return shown / ((ends - starts) / MICRO) if self._increments else shown

    def columns(self, edges: Micros) -> Totals:
        """Totals between each two neighbouring edges (ascending)."""
        groups = self.settle()
        left, right = edges[:-1], edges[1:]
        n = len(left)
        if not groups or not n:
            nothing = np.zeros(n)
            return Totals(nothing + np.inf, nothing - np.inf, nothing, nothing)
        place = np.searchsorted(self._span[1, :groups], edges, "left")
        head, tail = place[:-1], place[1:]
        # Both ends of every column in one go; where they are in one group, that is the head's.
        apart = np.flatnonzero((tail > head) & (tail < groups))
        found = self._pieces(
            np.minimum(np.concatenate((head, tail[apart])), groups - 1),
            np.concatenate((left, left[apart])),
            np.concatenate((right, right[apart])),
        )
        low, high, integral, covered = found[:, :n]
        if len(apart):
            low[apart] = np.minimum(low[apart], found[_LOW, n:])
            high[apart] = np.maximum(high[apart], found[_HIGH, n:])
            integral[apart] += found[_SUM, n:]
            covered[apart] += found[_COVERED, n:]
        wide = np.flatnonzero(tail - head > 1)
        if len(wide):
            # Whole groups in the middle: every second segment; between them lie the groups that edges fall into.
            self.sum_up()
            cuts = np.empty((len(wide), 2), np.intp)
            cuts[:, 0], cuts[:, 1] = head[wide] + 1, tail[wide]
            levels = [
                reduce.reduceat(level, cuts.ravel())[::2]
                for reduce, level in zip((np.minimum, np.maximum, np.add), self._level, strict=True)
            ]
            low[wide] = np.minimum(low[wide], levels[_LOW])
            high[wide] = np.maximum(high[wide], levels[_HIGH])
            integral[wide] += levels[_SUM]
            covered[wide] += self._seen[tail[wide]] - self._seen[cuts[:, 0]]
        return Totals(low, high, integral, covered / MICRO)

    def total(self, start: int, end: int) -> tuple[float, float, float, float]:
        """As :meth:`columns`, for one range."""
        groups = self.settle()
        first = int(np.searchsorted(self._span[1, :groups], start, "right"))
        after = int(np.searchsorted(self._span[0, :groups], end, "left"))
        if first >= after:
            return 0.0, 0.0, 0.0, 0.0
        ends = np.array((first, after - 1)[: after - first])
        found = self._pieces(ends, np.full(len(ends), start), np.full(len(ends), end))
        low, high = float(found[_LOW].min()), float(found[_HIGH].max())
        integral, covered = found[_SUM:].sum(axis=1).tolist()
        if after - first > 2:
            self.sum_up()
            whole = self._level[:, first + 1 : after - 1]
            low, high = min(low, float(whole[_LOW].min())), max(high, float(whole[_HIGH].max()))
            integral += float(whole[_SUM].sum())
            covered += int(self._seen[after - 1] - self._seen[first + 1])
        return low, high, integral, covered / MICRO

    def _pieces(self, group: npt.NDArray[np.intp], left: Micros, right: Micros) -> Floats:
        """Totals of the pieces of one group a row, clipped to the row's range."""
        base = self._span[0, group]
        return self._sum(
            self._off.reshape(-1, GROUP)[group],
            self._val.reshape(-1, GROUP)[group],
            (left - base)[:, None],
            (right - base)[:, None],
        )

    def _sum(self, ends: Array, values: Array, left: Array, right: Array) -> Floats:
        """Lowest, highest, integral and covered microseconds of rows of pieces, each row clipped to its range."""
        bounds = np.zeros((len(ends), GROUP + 1))
        bounds[:, 1:] = ends
        length = np.diff(bounds) if self._increments else None
        np.maximum(bounds, left, out=bounds)
        np.minimum(bounds, right, out=bounds)
        share = bounds[:, 1:] - bounds[:, :-1]
        used = (share > 0) & (values == values)
        shown = np.where(used, values, 0.0).astype(np.float64)
        share *= used
        out = np.empty((4, len(ends)))
        if length is None:
            out[_SUM] = np.einsum("ij,ij->i", shown, share) / MICRO
        else:
            length[~used] = 1.0
            out[_SUM] = np.einsum("ij,ij->i", shown, share / length)
            shown *= MICRO / length
        out[_LOW] = np.where(used, shown, np.inf).min(axis=1)
        out[_HIGH] = np.where(used, shown, -np.inf).max(axis=1)
        out[_COVERED] = share.sum(axis=1)
        return out

    def _observed(self, values: Array) -> npt.NDArray[np.bool_]:
        seen: npt.NDArray[np.bool_] = values == values
        return seen

    def _summarise(self, first: int, after: int) -> None:
        rows = slice(first * GROUP, after * GROUP)
        whole = np.zeros((1, 1)), np.full((1, 1), 2.0**33)
        ends, values = self._off[rows].reshape(-1, GROUP), self._val[rows].reshape(-1, GROUP)
        found = self._sum(ends, values, *whole)
        self._level[:, first:after] = found[:_COVERED]
        self._seen[first + 1 : after + 1] = self._seen[first] + np.cumsum(found[_COVERED].astype(np.int64))

    def _widen(self, groups: int, more: int) -> None:
        self._level = np.concatenate((self._level[:, :groups], np.zeros((3, more + 1))), axis=1)
        self._seen = np.concatenate((self._seen[: groups + 1], np.zeros(more, np.int64)))

    def _shift(self, groups: int) -> None:
        self._level = self._level[:, groups:].copy()
        self._seen = self._seen[groups:].copy()
