"""Columns of several series, each read again only where it may still change."""

from __future__ import annotations

from gaptop.timeline.types import Columns, SeriesId
from gaptop.tui.scene import Scene
from gaptop.tui.window import Window, settled_until


class Kept:
    """One cache a series."""

    def __init__(self) -> None:
        self._windows: dict[SeriesId, Window] = {}

    def columns(self, scene: Scene, one: SeriesId) -> Columns:
        """The columns on screen."""
        view, window = scene.view, self._windows.setdefault(one, Window())

        def fetch(start: float, end: float, n: int) -> Columns:
            return scene.timeline.columns(one, start, end, n)

        return window.read(view.seconds, view.first, view.columns, settled_until(scene.sources.get(one.source)), fetch)
