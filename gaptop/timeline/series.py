"""From readings to the intervals that they describe: one class for each kind of signal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from gaptop.timeline.pyramid import Pyramid
from gaptop.timeline.source import SourceState
from gaptop.timeline.types import Floats
from gaptop.timeline.units import LARGEST, MICRO
from gaptop_collectors.signals import SIGNALS

_BRIDGE: Final = 1.5
"""Windows from one end to the next up to which they count as successive: sampling jitters, and W is an estimate."""
_COUNTER_REACH: Final = 10 * MICRO
"""A counter's increment over a longer interval says too little about when it came."""
_DIGITS: Final = 7
"""A ratio read back from float32 is rounded to what it can hold, so that 0.95 is 0.95 again."""
_BEFORE_ALL: Final = -(1 << 62)


class Series(ABC):
    """One series: its pieces, its newest reading (time, raw value), and where its history begins."""

    __slots__ = (
        "_begin",
        "_gaps",
        "_labelled",
        "_mark",
        "_recut",
        "_seen",
        "_signal",
        "newest",
        "pieces",
        "ratio",
        "source",
    )
    increments = False

    def __init__(self, key: str, source: SourceState) -> None:
        name, brace, _ = key.partition("{")
        signal = SIGNALS.get(name)
        self.source = source
        self._signal = name
        self._gaps = source.gaps
        self.pieces = Pyramid(self.increments)
        self.newest: tuple[int, float] | None = None
        self.ratio = signal is not None and signal.unit == "ratio"
        self._labelled = bool(brace)
        self._seen = _BEFORE_ALL
        self._begin: int | None = None
        self._recut: int | None = None
        # Set while the pieces end with one that only holds for now (see Gauge).
        self._mark: tuple[int, int] | None = None

    @abstractmethod
    def read(self, t: int, value: float | None) -> None:
        """One reading, or None for "no observation". What is not newer than the newest is ignored."""

    @abstractmethod
    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What explicit holes leave of a piece."""

    @abstractmethod
    def pending(self) -> int:
        """From here on a later reading may still tell (microseconds)."""

    def begin(self) -> int:
        """Before this nothing could be there, or it was forgotten."""
        if self.pieces.forgotten is not None:
            return self.pieces.forgotten
        return self.source.first if self._begin is None else self._begin

    def ready(self, now: int) -> Pyramid:
        """The pieces as known now."""
        if self._recut is not None:
            self._cut(self._recut)
        return self.pieces

    def shown(self, values: Floats) -> Floats:
        """Values as they were before they became float32, where that is known."""
        return np.round(values, _DIGITS) if self.ratio else values

    def hole(self, start: int) -> None:
        """An explicit hole was declared that starts here; what is stored is cut before it is read again."""
        if self.pieces.count and start < self.pieces.end:
            self._recut = start if self._recut is None else min(start, self._recut)

    def redescribed(self, reached: int) -> None:
        """The source was described anew; ``reached`` is how far the present can be seen."""
        return

    def stale(self, moment: int) -> bool:
        """A labelled series (a thread, a process) of which nothing came since a moment."""
        return self._labelled and self._seen < moment

    def drop_before(self, moment: int) -> None:
        """Forget what ended before a moment."""
        self._hide()
        self.pieces.drop_before(moment)

    def shed(self) -> None:
        """Forget the older half."""
        self._hide()
        self.pieces.shed()

    def _appear(self, t: int) -> None:
        """Where the history begins, given its first reading: with the source where that reading came late."""
        source = self.source
        late = t - source.first > source.hold(self._signal) + source.window(self._signal) + source.lag
        self._begin = source.first if late and not self._labelled else max(source.first, t)

    def _lay(self, start: int, end: int, value: float) -> None:
        """Append what explicit holes leave of a piece."""
        for a, b in self._kept(start, end):
            self.pieces.put(a, b, value)

    def _cut(self, moment: int) -> None:
        self._hide()
        self._recut = None
        starts, ends, values = self.pieces.cut_back(moment)
        for start, end, value in zip(starts.tolist(), ends.tolist(), values.tolist(), strict=True):
            self._lay(start, end, value)

    def _hide(self) -> None:
        if self._mark is not None:
            self.pieces.rewind(self._mark)
            self._mark = None


class Gauge(Series):
    """The state at one instant, valid until the next reading, at most 2.5 periods."""

    __slots__ = ("_shown_to", "_since", "_until", "_value")

    def __init__(self, key: str, source: SourceState) -> None:
        super().__init__(key, source)
        # The newest reading: it holds from _since to _until unless a later one ends it. None: nothing holds.
        self._value: float | None = None
        self._since = 0
        self._until = 0
        self._shown_to = 0

    def read(self, t: int, value: float | None) -> None:
        if t <= self._seen:
            return
        self._seen = t
        if self._mark is not None:
            self._hide()
        if self._value is not None:
            end = t if t < self._until else self._until
            if self._gaps.last > self._since:
                self._lay(self._since, end, self._value)
            else:
                self.pieces.put(self._since, end, self._value)
        elif self._begin is None and value is not None:
            self._appear(t)
        self._value = value
        if value is not None:
            self._since, self._until = t, t + self.source.hold(self._signal)
            self.newest = t, value

    def ready(self, now: int) -> Pyramid:
        super().ready(now)
        if self._value is not None:
            mark = self.source.watermark
            end = min(max(now if mark is None else mark, self._since), self._until)
            if self._mark is None or end != self._shown_to:
                self._hide()
                self._mark = self.pieces.mark()
                self._shown_to = end
                self._lay(self._since, end, self._value)
        return self.pieces

    def redescribed(self, reached: int) -> None:
        if self._value is not None and reached <= self._until:
            self._until = max(self._until, self._since + self.source.hold(self._signal))

    def pending(self) -> int:
        return self.source.frontier

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for a, _ in self._gaps.within(start, end):
            end = min(end, a)
        if end > start:
            yield start, end


class Window(Series):
    """The mean over an interval that ends at the reading's time less the source's lag."""

    __slots__ = ("_merges", "_to")

    def __init__(self, key: str, source: SourceState) -> None:
        super().__init__(key, source)
        # Of hundreds of threads most are idle for long: equal neighbours become one piece.
        self._merges = "tid=" in key
        self._to: int | None = None

    def read(self, t: int, value: float | None) -> None:
        if t <= self._seen:
            return
        self._seen = t
        if value is None:
            return
        self.newest = t, value
        source = self.source
        end = t - source.lag
        window = source.window(self._signal)
        start = end - window
        if self._to is None:
            self._appear(start)
        elif end <= self._to:
            return
        elif start < self._to or end - self._to <= _BRIDGE * window:
            start = self._to
        self._to = end
        if self._gaps.last > start:
            self._lay(start, end, value)
        elif not (self._merges and self.pieces.extend(start, end, value)):
            self.pieces.put(start, end, value)

    def pending(self) -> int:
        if self._to is None:
            return self.source.frontier
        reached = self.source.frontier - self.source.lag
        window = self.source.window(self._signal)
        if reached - self._to <= _BRIDGE * window:
            return self._to
        return max(self._to, reached - window)

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return self._gaps.outside(start, end)


class Counter(Series):
    """A cumulative count: the increment between two readings; a fall is a restart and says nothing."""

    __slots__ = ()
    increments = True

    def read(self, t: int, value: float | None) -> None:
        if t <= self._seen:
            return
        self._seen = t
        if value is None:
            return
        newest, self.newest = self.newest, (t, value)
        if newest is None:
            self._appear(t)
            return
        since, before = newest
        rise = value - before
        if 0 <= rise <= LARGEST and (t - since <= _COUNTER_REACH or t - since <= self._reach()):
            if self._gaps.last > since:
                self._lay(since, t, rise)
            else:
                self.pieces.put(since, t, rise)

    def pending(self) -> int:
        frontier = self.source.frontier
        if self.newest is None or frontier - self.newest[0] > self._reach():
            return frontier
        return self.newest[0]

    def _reach(self) -> int:
        return max(_COUNTER_REACH, self.source.hold(self._signal))

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        if next(self._gaps.within(start, end), None) is None:
            yield start, end


_KINDS: Final[dict[str, Callable[[str, SourceState], Series]]] = {
    "gauge": Gauge,
    "window": Window,
    "counter": Counter,
}


def make_series(key: str, source: SourceState) -> Series:
    """A series of the kind that the vocabulary states; an unknown signal is kept as a gauge."""
    signal = SIGNALS.get(key.partition("{")[0])
    return (Gauge if signal is None else _KINDS[signal.kind])(key, source)
