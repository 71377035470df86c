"""Where the user is: the range on screen, the cursor, the selected valley; and how keys and mouse change them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gaptop.tui.view import View, usual_view
from gaptop.valleys.model import Valley


class Position:
    """``cursor`` is a time, ``chosen`` a valley's id; None: none. Every method takes the newest moment as ``now``."""

    def __init__(self, columns: int, now: float) -> None:
        self.view: View = usual_view(columns, now)
        self.cursor: float | None = None
        self.chosen: str | None = None

    def resize(self, columns: int, now: float) -> None:
        self.view = self.view.resize(columns, now)

    def advance(self, now: float) -> None:
        """A following view moves on."""
        self.view = self.view.advance(now)

    def toggle_pause(self, now: float) -> None:
        if self.view.following:
            self.view = self.view.hold()
        else:
            self.cursor = None
            self.view = self.view.follow(now)

    def pan(self, columns: int, now: float) -> None:
        self.view = self.view.pan(columns, now)

    def zoom(self, steps: int, now: float) -> None:
        """Around the cursor where there is one on screen, else around the middle."""
        anchor = (self.view.start + self.view.end) / 2
        if self.cursor is not None and self.view.shows(self.cursor):
            anchor = self.cursor
        self.view = self.view.zoom(steps, anchor, now)

    def zoom_at(self, steps: int, column: int, now: float) -> None:
        """Around the column (from the left) under the pointer."""
        self.view = self.view.zoom_at(steps, self.view.time_at(self.view.first + column), now)

    def zoom_reset(self, now: float) -> None:
        """About a minute again, in the same place."""
        fresh = usual_view(self.view.columns, now)
        if not self.view.following:
            fresh = replace(fresh, following=False).centre((self.view.start + self.view.end) / 2)
        self.view = fresh

    def live(self, now: float) -> None:
        self.cursor, self.chosen = None, None
        self.view = self.view.follow(now)

    def back(self) -> None:
        """Cursor and selection go, the view stays."""
        self.cursor, self.chosen = None, None

    def step_cursor(self, columns: int) -> None:
        """By a column; it starts in the middle, and holds the view."""
        view = self.view
        column = view.first + view.columns // 2
        if self.cursor is not None:
            column = view.column_at(self.cursor) + columns
        self.cursor = view.time_at(min(max(column, view.first), view.right))
        self.view = view.hold()

    def point_at(self, column: int, valley: Valley | None) -> None:
        """A click on a column (from the left), under which lies that valley."""
        self.cursor = self.view.time_at(self.view.first + column)
        self.chosen = valley.id if valley else None
        self.view = self.view.hold()

    def step_valley(self, step: int, valleys: Sequence[Valley], explained: Valley | None, now: float) -> str:
        """Select the next or previous valley and bring it into view; the first press takes the explained one.

        Returns what to say where that is not possible, else "".
        """
        if not valleys:
            return "No valley so far."
        index = next((i for i, valley in enumerate(valleys) if explained and valley.id == explained.id), None)
        if index is None:
            index, step = len(valleys) - 1, 0
        target = index + step if self.chosen is not None else index
        if not 0 <= target < len(valleys):
            return "That was the last valley." if step > 0 else "That was the first valley."
        middle = self._select(valleys[target], now)
        held = self.view.hold()
        self.view = held if held.shows(valleys[target].start_s) and held.shows(middle) else held.centre(middle)
        return ""

    def zoom_to(self, valley: Valley, now: float) -> None:
        """The valley with half its length on each side."""
        self._select(valley, now)
        end = now if valley.end_s is None else valley.end_s
        margin = max((end - valley.start_s) / 2, 0.1)
        self.view = self.view.fit(valley.start_s - margin, end + margin)

    def _select(self, valley: Valley, now: float) -> float:
        self.chosen = valley.id
        self.cursor = (valley.start_s + (now if valley.end_s is None else valley.end_s)) / 2
        return self.cursor
