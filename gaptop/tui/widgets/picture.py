"""The picture in upright patches, of which only the changed lines are redrawn.

Textual resends a dirty line from its widget's left edge, so one wide widget would resend whole lines for each new
column at the right. Patches are narrow where a live picture changes all the time, and wide where it only rolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import events
from textual.containers import Horizontal

from gaptop.tui.cells import Row, strip_of
from gaptop.tui.messages import PointedAt, WheelTurned
from gaptop.tui.widgets.direct import DirectLines

_NARROW: Final = 8
_NARROW_PATCHES: Final = 3
_WIDE: Final = 24


class Patch(DirectLines):
    """Some columns of the picture."""

    def __init__(self, left: int, columns: int) -> None:
        super().__init__()
        self.left = left
        self.columns = columns
        self.styles.width = columns

    def on_click(self, event: events.Click) -> None:
        self.post_message(PointedAt(self.left + event.x))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.post_message(WheelTurned(self.left + event.x, 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.post_message(WheelTurned(self.left + event.x, -1))


class Picture(Horizontal):
    """Shows rows of cells that are gutter + cells + margin wide."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._patches: list[Patch] = []
        self._geometry = (0, 0, 0)

    async def cut(self, gutter: int, cells: int, margin: int) -> None:
        """Arrange patches for that geometry (columns of the three parts)."""
        if (gutter, cells, margin) == self._geometry:
            return
        self._geometry = (gutter, cells, margin)
        edges = [0, *(gutter + edge for edge in cell_edges(cells)), gutter + cells + margin]
        self._patches = [Patch(a, b - a) for a, b in zip(edges, edges[1:], strict=False)]
        self._rows = []
        await self.remove_children()
        await self.mount(*self._patches)

    def show(self, rows: Sequence[Row]) -> None:
        """Redraw the patches' lines whose cells differ from what is shown."""
        before, self._rows = self._rows, list(rows)
        changed = [y for y, row in enumerate(self._rows) if y >= len(before) or before[y] != row]
        for patch in self._patches:
            a, b = patch.left, patch.left + patch.columns
            dirty = {
                y: strip_of(self._rows[y][a:b])
                for y in changed
                if y >= len(before) or before[y][a:b] != self._rows[y][a:b]
            }
            patch.put(dirty, len(self._rows))


def cell_edges(cells: int) -> list[int]:
    """Where patches begin and end, from 0 to ``cells``: narrow ones at the right end."""
    edges = [cells - _NARROW * count for count in range(_NARROW_PATCHES + 1)]
    while edges[-1] > 0:
        edges.append(edges[-1] - _WIDE)
    return [0, *sorted(edge for edge in edges if edge > 0)]
