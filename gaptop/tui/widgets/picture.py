"""The picture in upright patches, of which only the changed lines are redrawn.

Textual resends a dirty line from its widget's left edge, so one wide widget would resend whole lines for each new
column at the right. Patches are narrow where a live picture changes all the time, and wide where it only rolls: in a
sweep all of them are narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import events
from textual.containers import Horizontal
from textual.strip import Strip

from gaptop.tui.cells import Row, strip_of
from gaptop.tui.messages import DrawnOver, PointedAt, WheelTurned
from gaptop.tui.widgets.direct import DirectLines

_NARROW: Final = 8
_NARROW_PATCHES: Final = 2
_WIDE: Final = 80
"""When the picture rolls by a column most lines change from end to end, and each patch of each costs its share of a
frame: with wide ones of 24 columns a tenth more CPU for a twentieth fewer bytes."""


class Patch(DirectLines):
    """Some columns of the picture."""

    def __init__(self, left: int, columns: int) -> None:
        super().__init__()
        self.left = left
        self.columns = columns
        self._pressed: int | None = None
        """The column under the pressed button."""
        self._moved = False
        """The pointer was moved since."""
        self.styles.width = columns

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._pressed = self.left + event.x
        self._moved = False

    def on_mouse_move(self, event: events.MouseMove) -> None:
        x = self.left + event.x
        if self._pressed is not None and (self._moved or x != self._pressed):
            self._moved = True
            self.post_message(DrawnOver(self._pressed, x))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        pressed, self._pressed = self._pressed, None
        if pressed is not None and not self._moved:
            self.post_message(PointedAt(pressed))

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
        self._geometry: tuple[int, int, int, bool] | None = None

    async def cut(self, gutter: int, cells: int, margin: int, sweeping: bool = False) -> None:
        """Arrange patches for that geometry (columns of the three parts), for a rolling picture or a sweep."""
        if (gutter, cells, margin, sweeping) == self._geometry:
            return
        self._geometry = (gutter, cells, margin, sweeping)
        edges = [0, *(gutter + edge for edge in cell_edges(cells, sweeping)), gutter + cells + margin]
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
            dirty: dict[int, Strip] = {}
            ends: dict[int, int] = {}
            for y in changed:
                cells = self._rows[y][a:b]
                if y >= len(before):
                    dirty[y] = strip_of(cells)
                elif (end := changed_until(before[y][a:b], cells)) > 0:
                    dirty[y], ends[y] = strip_of(cells), end
            patch.put(dirty, len(self._rows), ends)


def changed_until(before: Row, cells: Row) -> int:
    """The number of cells after which two rows are the same; 0 where they are the same throughout, and all of them
    where they are not of one length: a frame may fall between a change of the screen's size and that of the view."""
    if before == cells:
        return 0
    end = len(cells)
    if len(before) != end:
        return end
    while before[end - 1] == cells[end - 1]:
        end -= 1
    while end < len(cells) and cells[end][0] == "":  # the other half of a wide character
        end += 1
    return end


def cell_edges(cells: int, sweeping: bool = False) -> list[int]:
    """Where patches begin and end, from 0 to ``cells``: narrow ones at the right end, in a sweep everywhere."""
    edges = [cells - _NARROW * count for count in range(_NARROW_PATCHES + 1)]
    while edges[-1] > 0:
        edges.append(edges[-1] - (_NARROW if sweeping else _WIDE))
    return [0, *sorted(edge for edge in edges if edge > 0)]
