"""Where the user is: the time on screen, the cursor, what is selected; and how keys and mouse change them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gaptop.tui.sweep import Places
from gaptop.tui.view import View, usual_view
from gaptop.valleys.model import Valley

_HEAD_STEP: Final = 0.25
"""Seconds: a tick of the stream."""
_SLOWEST: Final = 1 / 16
_FASTEST: Final = 64.0


class Position:
    """``cursor`` is a time, ``chosen`` a valley's id, ``selected`` a stretch of time; None: none. Every method
    takes the newest moment as ``now``."""

    def __init__(self, columns: int, now: float) -> None:
        self.view: View = usual_view(columns, now)
        self.cursor: float | None = None
        self.chosen: str | None = None
        self.selected: tuple[float, float] | None = None
        self._anchor: float | None = None
        """The end of the range that stays while the cursor moves the other one."""
        self.playing = False
        self.speed = 1.0
        """Seconds of a recording that go by in a second while it plays."""
        self.sweep = False
        """While the view follows, columns stand at fixed places."""

    @property
    def places(self) -> Places:
        """Where columns stand on screen."""
        return Places(self.view, self.sweep and self.view.following)

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

    def toggle_play(self, now: float) -> None:
        """The cursor is the play head: let it run from where it is (from the left edge where it is not on screen, and
        from the start once it has come to the end), or hold it."""
        self.playing = not self.playing
        if not self.playing:
            return
        if self.cursor is not None and self.cursor >= now - self.view.seconds:
            self.go_to(0.0)
        elif self.cursor is None or not self.view.shows(self.cursor):
            self.cursor = max(0.0, self.view.time_at(self.view.first))

    def play(self, seconds: float, now: float) -> None:
        """So much time went by: the head moves on, and where it leaves the screen, the page turns."""
        if not self.playing or self.cursor is None:
            return
        self.cursor = min(self.cursor + seconds * self.speed, now)
        self.playing = self.cursor < now
        if not self.view.shows(self.cursor):
            right = self.view.column_at(self.cursor) + self.view.columns - 1
            self.view = replace(self.view.hold(), right=right)
        self._extend()

    def step_head(self, steps: int, now: float) -> None:
        """Back or forth by a column, at least by a quarter of a second; it stands then."""
        self.playing = False
        if self.cursor is None:
            self.step_cursor(0)
            return
        step = max(self.view.seconds, _HEAD_STEP)
        self.go_to(min(max(0.0, self.cursor + steps * step), now))

    def faster(self, steps: int) -> None:
        """Twice or half as fast."""
        self.speed = min(max(self.speed * 2.0**steps, _SLOWEST), _FASTEST)

    def pan(self, columns: int, now: float) -> None:
        self.view = self.view.pan(columns, now)

    def zoom(self, steps: int, now: float) -> None:
        """Around the cursor where there is one on screen, else around the middle."""
        anchor = (self.view.start + self.view.end) / 2
        if self.cursor is not None and self.view.shows(self.cursor):
            anchor = self.cursor
        self.view = self.view.zoom(steps, anchor, now)

    def zoom_at(self, steps: int, place: int, now: float) -> None:
        """Around what is at the place (from the left) under the pointer."""
        at = self._hold_at(place)
        self.view = self.view.zoom_at(steps, self.view.time_at(at), now)

    def zoom_reset(self, now: float) -> None:
        """About a minute again, in the same place."""
        fresh = usual_view(self.view.columns, now)
        if not self.view.following:
            fresh = replace(fresh, following=False).centre((self.view.start + self.view.end) / 2)
        self.view = fresh

    def show_whole(self, start: float, end: float) -> None:
        """All of a recording."""
        self.view = self.view.fit(start, end)

    def live(self, now: float) -> None:
        self.cursor, self.chosen = None, None
        self.view = self.view.follow(now)

    def back(self) -> None:
        """Cursor and selections go, the view stays."""
        self.cursor, self.chosen, self.selected, self._anchor = None, None, None, None

    @property
    def marking(self) -> bool:
        """Whether the cursor draws a range behind it."""
        return self._anchor is not None

    def mark(self) -> None:
        """Begin a range at the cursor (in the middle, where there is none); the second time, let go of it."""
        if self._anchor is not None:
            self._anchor = None
            return
        if self.cursor is None:
            self.step_cursor(0)
        assert self.cursor is not None
        self._anchor = self.cursor
        self._extend()

    def drag(self, first: int, last: int) -> None:
        """A range from place to place (from the left), as the pointer draws it."""
        self._anchor = self.view.time_at(self._hold_at(first))
        self.cursor = self.view.time_at(self.view.first + last)
        self._extend()
        self._anchor = None

    def go_to(self, t: float) -> None:
        """Put the cursor there, in the middle of the screen where it is not on it; held."""
        held = self.view.hold()
        self.view = held if held.shows(t) else held.centre(t)
        self.cursor = t
        self._extend()

    def _extend(self) -> None:
        """Whole columns from the anchor to the cursor."""
        if self._anchor is not None and self.cursor is not None:
            columns = sorted((self.view.column_at(self._anchor), self.view.column_at(self.cursor)))
            self.selected = columns[0] * self.view.seconds, (columns[1] + 1) * self.view.seconds

    def step_cursor(self, columns: int) -> None:
        """By a column; it starts in the middle, and holds the view."""
        view = self.view
        column = view.first + view.columns // 2
        if self.cursor is not None:
            column = view.column_at(self.cursor) + columns
        self.cursor = view.time_at(min(max(column, view.first), view.right))
        self.view = view.hold()
        self._extend()

    def point_at(self, place: int, valley: Valley | None) -> None:
        """A click on a place (from the left), under which lies that valley."""
        self.cursor = self.view.time_at(self._hold_at(place))
        self.chosen = valley.id if valley else None

    def _hold_at(self, place: int) -> int:
        """Hold the view; what is under the pointer stays there, also where that ends a sweep. Its column."""
        column = self.places.column(place)
        self.view = replace(self.view, right=column - place + self.view.columns - 1, following=False)
        return column

    def step_valley(self, step: int, valleys: Sequence[Valley], explained: Valley | None, now: float) -> str:
        """Select the next or previous of the ``valleys`` (one at least) and bring it into view; the first press takes
        the explained one.

        Returns what to say where that is not possible, else "".
        """
        index = next((i for i, valley in enumerate(valleys) if explained and valley.id == explained.id), None)
        if index is None:
            index, step = len(valleys) - 1, 0
        target = index + step if self.chosen is not None else index
        if not 0 <= target < len(valleys):
            return "That was the last valley." if step > 0 else "That was the first valley."
        self.choose(valleys[target], now)
        return ""

    def choose(self, valley: Valley, now: float) -> None:
        """Select a valley and bring it into view, at the same zoom; held."""
        middle = self._select(valley, now)
        held = self.view.hold()
        self.view = held if held.shows(valley.start_s) and held.shows(middle) else held.centre(middle)

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
