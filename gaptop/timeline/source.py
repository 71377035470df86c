"""What the timeline knows of one source while it reads the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gaptop.recording.lines import Health, Hole, Source
from gaptop.timeline.intervals import Intervals
from gaptop.timeline.types import SourceView
from gaptop.timeline.units import MICRO, nearest

if TYPE_CHECKING:
    from gaptop.timeline.series import Series

HOLD: Final = 2.5
"""Periods that a gauge's reading is good for."""
_LONGEST: Final = 600 * MICRO
"""A period, window or lag beyond this is taken as this, so that no piece outgrows its store."""
_UNSTATED: Final = MICRO
"""The period of a source that states none."""
_HOLES: Final = 5_000


def _period(seconds: float) -> int:
    return min(nearest(seconds), _LONGEST) if seconds > 0 else _UNSTATED


class SourceState:
    """Periods and windows in microseconds, holes, and how far the source has delivered."""

    def __init__(self, info: Source, first: int) -> None:
        self.first = first
        self.series: dict[str, Series] = {}
        self.newest: int | None = None
        self.watermark: int | None = None
        self.gaps = Intervals()
        self.holes: list[Hole] = []
        self.health: Health | None = None
        self.describe(info)

    def describe(self, info: Source) -> None:
        """Take over a (changed) description."""
        self.info = info
        period = _period(info.period)
        self._hold = round(period * HOLD)
        self._holds = {name: round(_period(each) * HOLD) for name, each in info.period_by_signal.items()}
        self._window = max(1, min(nearest(info.window), _LONGEST) if info.window else period)
        self._windows = {name: max(1, min(nearest(each), _LONGEST)) for name, each in info.window_by_signal.items()}
        self.lag = min(max(nearest(info.lag), -_LONGEST), _LONGEST)

    def hold(self, signal: str) -> int:
        """How long a gauge's reading is good for."""
        return self._holds.get(signal, self._hold)

    def window(self, signal: str) -> int:
        """The length of the interval that a window reading describes."""
        return self._windows.get(signal, self._window)

    @property
    def frontier(self) -> int:
        """Up to here the source has delivered: its watermark, or its newest reading while it has given none."""
        if self.watermark is not None:
            return self.watermark
        return self.first if self.newest is None else self.newest

    def add_hole(self, hole: Hole, start: int, end: int) -> bool:
        """Note an explicit hole; False where all of it was known."""
        if not self.gaps.add(start, end):
            return False
        self.holes.append(hole)
        if len(self.holes) > _HOLES:
            del self.holes[: _HOLES // 8]
        return True

    def drop_before(self, moment: int) -> None:
        """Forget holes that ended before a moment."""
        self.gaps.drop_before(moment)
        if self.holes and self.holes[0].end * MICRO < moment:
            self.holes = [hole for hole in self.holes if hole.end * MICRO >= moment]

    def view(self) -> SourceView:
        """The source as known now."""
        newest = None if self.newest is None else self.newest / MICRO
        return SourceView(self.info, self.health, newest, self.frontier / MICRO)
