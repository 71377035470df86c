"""What threads did: run-length states by stack, with seconds by activity for every group of states."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gaptop.timeline.runs import GROUP, Array, Micros, Runs
from gaptop.timeline.source import SourceState
from gaptop.timeline.stacks import UNSEEN, Stacks
from gaptop.timeline.types import Floats
from gaptop.timeline.units import MICRO
from gaptop_collectors.signals import ACTIVITIES

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
            self.sum_up()
            whole = self._seconds[first : min(last + 1, groups)].astype(np.float64)
            whole = np.concatenate((whole, np.zeros((last + 1 - first - len(whole), _WIDTH))))
            whole[place - first] = 0.0
            np.add.reduceat(whole, head - first, axis=0, out=out)
        codes = self._stacks.codes()
        self._add(out, np.flatnonzero(head < groups), head, edges, codes)
        self._add(out, np.flatnonzero((tail > head) & (tail < groups)), tail, edges, codes)
        return out

    def by_stack(self, start: int, end: int) -> dict[int, int]:
        """Microseconds of [start, end) by the small number of the stack."""
        starts, ends, stacks = self.select(start, end)
        took = np.minimum(ends, end) - np.maximum(starts, start)
        kinds, place = np.unique(stacks, return_inverse=True)
        # Weights make these floats; whole numbers below 2**53 stay exact.
        sums = np.bincount(place, took, len(kinds))
        return {int(stack): round(total) for stack, total in zip(kinds.tolist(), sums.tolist(), strict=True)}

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
    """The history of one thread. Neighbouring spans of one stack become one state."""

    def __init__(self, source: SourceState, stacks: Stacks) -> None:
        self.source = source
        self.states = States(stacks)
        self.newest = -(1 << 62)
        """The end of the newest span; before all time while there is none."""
        self._stack: int | None = None
        self._recut: int | None = None

    def see(self, start: int, end: int, stack: int) -> None:
        """It had this stack (by small number) during [start, end). What overlaps earlier spans is ignored."""
        start = max(start, self.newest)
        if end > start:
            self._put(start, end, stack)
            self.newest, self._stack = end, stack

    def hole(self, start: int) -> None:
        """An explicit hole was declared that starts here."""
        if start < self.newest:
            self._recut = start if self._recut is None else min(start, self._recut)

    def ready(self) -> States:
        """The states as known now."""
        if self._recut is not None:
            self._cut(self._recut)
        return self.states

    def drop_before(self, moment: int) -> None:
        """Forget what ended before a moment."""
        self.states.drop_before(moment)

    def shed(self) -> None:
        """Forget the older half."""
        self.states.shed()

    def _put(self, start: int, end: int, stack: int) -> None:
        for a, b in self.source.gaps.outside(start, end):
            # A state may outlast what one piece can say.
            for part in range(a, b, 1 << 31):
                until = min(part + (1 << 31), b)
                if stack != self._stack or not self.states.extend(part, until, stack):
                    self.states.put(part, until, stack)

    def _cut(self, moment: int) -> None:
        self._recut = None
        starts, ends, stacks = self.states.cut_back(moment)
        for start, end, stack in zip(starts.tolist(), ends.tolist(), stacks.tolist(), strict=True):
            self._put(start, end, stack)
