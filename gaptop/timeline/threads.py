"""What threads did: run-length states by stack, with seconds by activity for every group of states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from gaptop.timeline.runs import GROUP, Array, Micros, Runs
from gaptop.timeline.source import SourceState
from gaptop.timeline.stacks import UNSEEN, Stacks
from gaptop.timeline.types import Floats
from gaptop.timeline.units import MICRO
from gaptop_collectors.signals import ACTIVITIES

_DETAIL: Final = MICRO // 4
"""Neighbouring stacks of one activity are kept as one state (of the stack that took longest) up to this long."""
_WIDTH: Final = len(ACTIVITIES)


class States(Runs):
    """Pieces whose value is the small number of a stack."""

    __slots__ = ("_seconds", "_stacks")

    def __init__(self, stacks: Stacks) -> None:
        super().__init__(np.uint32, UNSEEN)
        self._stacks = stacks
        self._seconds: npt.NDArray[np.float32] = np.zeros((0, _WIDTH), np.float32)

    def columns(self, edges: Micros) -> Floats:
        """Seconds by activity (second axis, in the order of ACTIVITIES) between each two neighbouring edges."""
        groups = self.settle()
        out = np.zeros((len(edges) - 1, _WIDTH))
        if not groups or not len(out):
            return out
        place = np.searchsorted(self._span[1, :groups], edges, "left")
        head, tail = place[:-1], place[1:]
        first, last = int(place[0]), int(place[-1])
        if last - first > 1:
            whole = self._seconds[first : min(last + 1, groups)].astype(np.float64)
            whole = np.concatenate((whole, np.zeros((last + 1 - first - len(whole), _WIDTH))))
            whole[place - first] = 0.0
            np.add.reduceat(whole, head - first, axis=0, out=out)
        codes = self._stacks.codes()
        self._add(out, np.flatnonzero(head < groups), head, edges, codes)
        self._add(out, np.flatnonzero((tail > head) & (tail < groups)), tail, edges, codes)
        return out

    def stacks_used(self) -> npt.NDArray[np.uint32]:
        """The small numbers of all stacks that the history refers to."""
        self.settle()
        used: npt.NDArray[np.uint32] = np.unique(self._val[: self.count])
        return used

    def _add(
        self,
        out: Floats,
        which: npt.NDArray[np.intp],
        place: npt.NDArray[np.intp],
        edges: Micros,
        codes: npt.NDArray[np.uint8],
    ) -> None:
        if not len(which):
            return
        group = place[which]
        base = self._span[0, group]
        ends = self._off.reshape(-1, GROUP)[group].astype(np.int64)
        left, right = edges[:-1][which] - base, edges[1:][which] - base
        out[which] += self._sum(ends, self._val.reshape(-1, GROUP)[group], left[:, None], right[:, None], codes)

    def _sum(self, ends: Micros, values: Array, left: Micros, right: Micros, codes: npt.NDArray[np.uint8]) -> Floats:
        """Seconds by activity of rows of pieces, each row clipped to its own range."""
        starts = np.concatenate((np.zeros((len(ends), 1), np.int64), ends[:, :-1]), axis=1)
        share = np.minimum(ends, right) - np.maximum(starts, left)
        row, column = np.nonzero((share > 0) & self._observed(values))
        cell = row * _WIDTH + codes[values[row, column]]
        seconds = np.bincount(cell, share[row, column] / MICRO, len(ends) * _WIDTH)
        return seconds.astype(np.float64).reshape(-1, _WIDTH)

    def _observed(self, values: Array) -> npt.NDArray[np.bool_]:
        seen: npt.NDArray[np.bool_] = values != UNSEEN
        return seen

    def _summarise(self, first: int, after: int) -> None:
        rows = slice(first * GROUP, after * GROUP)
        ends, values = self._off[rows].astype(np.int64).reshape(-1, GROUP), self._val[rows].reshape(-1, GROUP)
        whole = np.array([[0]]), np.array([[1 << 33]])
        self._seconds[first:after] = self._sum(ends, values, *whole, self._stacks.codes())

    def _widen(self, groups: int, more: int) -> None:
        self._seconds = np.concatenate((self._seconds[:groups], np.zeros((more, _WIDTH), np.float32)))

    def _shift(self, groups: int) -> None:
        self._seconds = self._seconds[groups:].copy()


class Thread:
    """The history of one thread. Neighbouring spans of one activity become one state."""

    def __init__(self, source: SourceState, stacks: Stacks) -> None:
        self.source = source
        self.states = States(stacks)
        self._stacks = stacks
        self._start = 0
        self._end: int | None = None
        self._stack = 0
        self._weights: dict[int, int] = {}
        self._mark: tuple[int, int] | None = None
        self._recut: int | None = None

    @property
    def newest(self) -> int:
        """The end of the newest span."""
        return self._start if self._end is None else self._end

    def see(self, start: int, end: int, stack: int) -> None:
        """It had this stack (by small number) during [start, end). What overlaps earlier spans is ignored."""
        if self._end is not None:
            start = max(start, self._end)
        if end <= start:
            return
        if start != self._end or not self._continues(start, stack):
            self._flush()
            self._start = start
        self._weights[stack] = self._weights.get(stack, 0) + end - start
        self._stack, self._end = stack, end
        self._hide()

    def hole(self, start: int) -> None:
        """An explicit hole was declared that starts here."""
        if self._end is not None and start < self._end:
            self._recut = start if self._recut is None else min(start, self._recut)

    def ready(self) -> States:
        """The states as known now."""
        if self._recut is not None:
            self._cut(self._recut)
        if self._mark is None and self._weights:
            self._mark = self.states.mark()
            self._put(self._start, self.newest, self._dominant())
        return self.states

    def drop_before(self, moment: int) -> None:
        """Forget what ended before a moment."""
        self._hide()
        self.states.drop_before(moment)

    def shed(self) -> None:
        """Forget the older half."""
        self._hide()
        self.states.shed()

    def _continues(self, start: int, stack: int) -> bool:
        if stack == self._stack:
            return True
        same = self._stacks.activity(stack) == self._stacks.activity(self._stack)
        return same and start - self._start < _DETAIL

    def _dominant(self) -> int:
        return max(self._weights, key=self._weights.__getitem__)

    def _flush(self) -> None:
        self._hide()
        if self._weights:
            self._put(self._start, self.newest, self._dominant())
            self._weights = {}

    def _put(self, start: int, end: int, stack: int) -> None:
        for a, b in self._kept(start, end):
            # A state may outlast what one piece can say.
            for part in range(a, b, 1 << 31):
                self.states.put(part, min(part + (1 << 31), b), stack)

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return self.source.gaps.outside(start, end)

    def _hide(self) -> None:
        if self._mark is not None:
            self.states.rewind(self._mark)
            self._mark = None

    def _cut(self, moment: int) -> None:
        self._hide()
        self._recut = None
        starts, ends, stacks = self.states.cut_back(moment)
        for start, end, stack in zip(starts.tolist(), ends.tolist(), stacks.tolist(), strict=True):
            self._put(start, end, stack)
