"""Where columns stand on screen: in a rolling picture by age, in a sweep at fixed places, as on an oscilloscope.

In a sweep a column stands at its absolute number modulo the number of places. What was drawn stays where it is: only
the newest column moves, over the oldest ones, and wraps at the right edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gaptop.tui.link import Link
from gaptop.tui.view import View

GAP: Final = 4
"""Places after the newest column that show no data, so that the oldest is not taken for what comes next."""

_T = TypeVar("_T")


class SweepMode:
    """Whether the picture is swept: as it was ``chosen``, else where the link proves slow."""

    def __init__(self, chosen: str) -> None:
        self.on = chosen == "on"
        self._by_itself = chosen == "auto"
        self._link: Link | None = None

    def watch(self, link: Link | None) -> None:
        """What the screen is seen through."""
        self._link = link

    def choose(self, on: bool) -> None:
        """From now on the user's word counts."""
        self.on, self._by_itself = on, False

    def turned_on(self, now: float) -> bool:
        """Before each frame: whether the link has just proved slow."""
        if self.on or not self._by_itself or self._link is None or not self._link.is_slow(now):
            return False
        self.on, self._by_itself = True, False
        return True


@dataclass(frozen=True, slots=True)
class Places:
    """From absolute columns to places on screen (from the left), and back."""

    view: View
    sweeping: bool = False

    @property
    def turn(self) -> int:
        """The place of the oldest column."""
        return self.view.first % self.view.columns if self.sweeping else 0

    @property
    def gap(self) -> int:
        """Places that the sweep leaves empty: that many of the oldest columns are not seen."""
        return min(GAP, self.view.columns - 1) if self.sweeping else 0

    def place(self, column: int) -> int | None:
        """None where the column is not seen."""
        order = column - self.view.first
        if not self.gap <= order < self.view.columns:
            return None
        return (order + self.turn) % self.view.columns

    def column(self, place: int) -> int:
        """The column seen at a place; in the gap the newest, beside which it stands."""
        order = (place - self.turn) % self.view.columns
        return self.view.right if order < self.gap else self.view.first + order

    def arrange(self, cells: Sequence[_T], gap: Sequence[_T]) -> list[_T]:
        """Cells from oldest to newest as they stand on screen; in a sweep the first ones of ``gap`` fill the gap."""
        seen = [*gap[: self.gap], *cells[self.gap :]]
        cut = len(seen) - self.turn
        return [*seen[cut:], *seen[:cut]]
