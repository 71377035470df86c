"""Columns in which counters moved. One that stands still is not read again, however far the picture rolls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaptop.timeline.types import Columns, SeriesId
from gaptop.tui.scene import Scene
from gaptop.tui.view import View
from gaptop.tui.window import Window, settled_until


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found when the counter had that ``value``: absolute columns, of those that ``view`` showed."""

    view: View
    value: float
    newest: int
    """The column of its newest reading."""
    moved: tuple[int, ...]

    def holds(self, view: View, value: float) -> bool:
        """Whether nothing else can be found there: what came since is more of the same value."""
        if (view.seconds, value) != (self.view.seconds, self.value) or view.first < self.view.first:
            return False
        return view.right <= self.view.right or self.view.right >= self.newest


class Moved:
    """Remembers the last look at each counter."""

    def __init__(self) -> None:
        self._windows: dict[SeriesId, Window] = {}
        self._looks: dict[SeriesId, _Look] = {}

    def columns(self, scene: Scene, one: SeriesId, least: float) -> list[int]:
        """Columns on screen (from the left) in which it moved by more than ``least`` a second."""
        view, reading = scene.view, scene.timeline.latest(one)
        if reading is None:
            return []
        look = self._looks.get(one)
        if look is None or not look.holds(view, reading[1]):
            high = np.nan_to_num(self._read(scene, one).high)
            moved = tuple((np.flatnonzero(high > least) + view.first).tolist())
            look = self._looks[one] = _Look(view, reading[1], view.column_at(reading[0]), moved)
        return [column - view.first for column in look.moved if view.first <= column <= view.right]

    def _read(self, scene: Scene, one: SeriesId) -> Columns:
        view, window = scene.view, self._windows.setdefault(one, Window())

        def fetch(start: float, end: float, n: int) -> Columns:
            return scene.timeline.columns(one, start, end, n)

        return window.read(view.seconds, view.first, view.columns, settled_until(scene.sources.get(one.source)), fetch)
