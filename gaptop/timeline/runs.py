"""Piecewise constant history in little memory: eight bytes a piece, and an index over groups of pieces.

A piece holds from the end of the one before it to its own end. Times are whole microseconds, stored as uint32 offsets
from the start of the piece's group; what was not observed is a piece with the value ``none``. A group that would grow
longer than an offset can say is filled up with pieces of no length.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

GROUP: Final = 64
"""Pieces in a group."""
_REACH: Final = 2**32 - 1
_AT_ONCE: Final = 1024
"""Groups indexed at once: bounds the scratch memory."""
_MOST: Final = 1 << 20
"""Pieces that one history keeps, whatever its time span: a guard against hostile streams."""

Micros = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class Runs:
    """Append-only pieces; the newest ones may be taken back (:meth:`rewind`), the oldest dropped."""

    __slots__ = (
        "_base",
        "_clean",
        "_dropped",
        "_none",
        "_off",
        "_span",
        "_summed",
        "_val",
        "count",
        "end",
        "forgotten",
    )

    def __init__(self, dtype: Any, none: float) -> None:
        self.count = 0
        """Pieces, fillers included."""
        self.end = 0
        """Where the newest piece ends (microseconds); without meaning while there are none."""
        self.forgotten: int | None = None
        """Everything up to here was dropped."""
        self._none = none
        self._base = 0
        self._clean = 0
        self._summed = 0
        self._dropped = 0
        self._off: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._val: Array = np.zeros(0, dtype)
        self._span: Micros = np.zeros((2, 0), np.int64)

    @property
    def size(self) -> int:
        """Pieces that there is memory for."""
        return len(self._off)

    def put(self, start: int, end: int, value: float) -> None:
        """Append one piece; ``start`` must not lie before :attr:`end`, and the piece be shorter than 71 minutes."""
        n = self.count
        if not n:
            self.end = start
        elif start > self.end:
            self._push(start, self._none)
        elif n % GROUP and end - self._base <= _REACH:
            self._off[n] = end - self._base
            self._val[n] = value
            self.count = n + 1
            self.end = end
            return
        self._push(end, value)

    def extend(self, start: int, end: int, value: float) -> bool:
        """Lengthen the newest piece where it has the same value and touches; False: nothing done."""
        n = self.count
        if not n % GROUP or start != self.end or end - self._base > _REACH:
            return False
        if self._val[n - 1] != self._val.dtype.type(value):
            return False
        self._off[n - 1] = end - self._base
        self.end = end
        self._clean, self._summed = min(self._clean, n - 1), min(self._summed, n - 1)
        return True

    def mark(self) -> tuple[int, int]:
        """The present state, for :meth:`rewind`."""
        return self._dropped + self.count, self.end

    def rewind(self, mark: tuple[int, int]) -> None:
        """Go back to an earlier state; what was dropped since stays dropped."""
        count = max(0, mark[0] - self._dropped)
        self.count, self.end = count, mark[1]
        # A group of which some pieces remain must be indexed again.
        kept = count - 1 if count % GROUP else count
        self._clean, self._summed = min(self._clean, kept), min(self._summed, kept)
        if count % GROUP:
            self._base = int(self._span[0, count // GROUP])

    def settle(self) -> int:
        """Bring up to date where groups begin and end; the number of groups."""
        n = self.count
        groups = -(-n // GROUP)
        if self._clean != n:
            if n % GROUP:
                self._fill(n)
            for first in range(self._clean // GROUP, groups, _AT_ONCE):
                after = min(first + _AT_ONCE, groups)
                last = self._off[first * GROUP + GROUP - 1 : after * GROUP : GROUP]
                self._span[1, first:after] = self._span[0, first:after] + last
            self._clean = n
        return groups

    def sum_up(self) -> None:
        """Bring the sums of whole groups up to date. Only a range that holds a whole group needs them: one of 64
        pieces or more, so not the few columns that a live picture asks for."""
        groups = self.settle()
        if self._summed != self.count:
            for first in range(self._summed // GROUP, groups, _AT_ONCE):
                self._summarise(first, min(first + _AT_ONCE, groups))
            self._summed = self.count

    def select(self, start: int, end: int) -> tuple[Micros, Micros, Array]:
        """The observed pieces that share time with (start, end], whole: starts, ends, values."""
        groups = self.settle()
        first = int(np.searchsorted(self._span[1, :groups], start, "right"))
        after = int(np.searchsorted(self._span[0, :groups], end, "left"))
        after = max(first, after)
        base = self._span[0, first:after, None]
        ends = self._off[first * GROUP : after * GROUP].reshape(-1, GROUP) + base
        starts = np.concatenate((base, ends[:, :-1]), axis=1).ravel()
        ends = ends.ravel()
        values = self._val[first * GROUP : after * GROUP]
        keep = self._observed(values) & (ends > start) & (starts < end) & (ends > starts)
        return starts[keep], ends[keep], values[keep]

    def cut_back(self, moment: int) -> tuple[Micros, Micros, Array]:
        """Take back the group that a moment falls into and all later ones; their observed pieces."""
        groups = self.settle()
        group = int(np.searchsorted(self._span[1, :groups], moment, "right"))
        end = int(self._span[1, group - 1]) if group else int(self._span[0, 0]) if groups else 0
        pieces = self.select(end, self.end)
        self.rewind((self._dropped + group * GROUP, end))
        return pieces

    def drop_before(self, moment: int) -> None:
        """Forget whole groups that ended before a moment, once that is worth the copying."""
        self.settle()
        full = self.count // GROUP
        old = int(np.searchsorted(self._span[1, :full], moment, "left"))
        if old and old >= max(4, full // 8):
            self._forget(old)

    def shed(self) -> None:
        """Forget the older half."""
        self._forget(self.count // GROUP // 2)

    def _forget(self, groups: int) -> None:
        if groups <= 0:
            return
        self.sum_up()
        self.forgotten = int(self._span[1, groups - 1])
        self._off = self._off[groups * GROUP :].copy()
        self._val = self._val[groups * GROUP :].copy()
        self._span = self._span[:, groups:].copy()
        self._shift(groups)
        self._dropped += groups * GROUP
        self.count -= groups * GROUP
        self._clean -= groups * GROUP
        self._summed -= groups * GROUP

    def _push(self, end: int, value: float) -> None:
        if not self.count % GROUP:
            self._begin()
        if end - self._base > _REACH:
            self.count = self._fill(self.count)
            if value != value or value == self._none:
                self.end = end
                return
            self._begin()
        n = self.count
        self._off[n] = end - self._base
        self._val[n] = value
        self.count, self.end = n + 1, end

    def _fill(self, n: int) -> int:
        """Pieces of no length up to the end of the group that piece ``n`` would be in."""
        full = -(-n // GROUP) * GROUP
        self._off[n:full] = self._off[n - 1]
        self._val[n:full] = self._none
        return full

    def _begin(self) -> None:
        n = self.count
        if n + GROUP > len(self._off):
            if n >= _MOST:
                self._forget(n // GROUP // 8)
                n = self.count
            self._grow(n)
        self._base = self.end
        self._span[0, n // GROUP] = self.end

    def _grow(self, n: int) -> None:
        groups = n // GROUP
        more = max(1, min(groups // 2, 128))
        self._off = np.concatenate((self._off[:n], np.zeros(more * GROUP, np.uint32)))
        self._val = np.concatenate((self._val[:n], np.zeros(more * GROUP, self._val.dtype)))
        self._span = np.concatenate((self._span[:, :groups], np.zeros((2, more), np.int64)), axis=1)
        self._widen(groups, more)

    def _observed(self, values: Array) -> npt.NDArray[np.bool_]:
        raise NotImplementedError

    def _summarise(self, first: int, after: int) -> None:
        """Sum up some groups, all of whose pieces are there."""
        raise NotImplementedError

    def _widen(self, groups: int, more: int) -> None:
        raise NotImplementedError

    def _shift(self, groups: int) -> None:
        raise NotImplementedError
