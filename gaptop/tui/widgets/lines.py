"""A block of text lines of which only the changed ones are redrawn."""

from __future__ import annotations

from collections.abc import Sequence

from gaptop.tui.cells import Piece, line_of
from gaptop.tui.widgets.direct import DirectLines


class Lines(DirectLines):
    """``show`` replaces the lines; a line that stays the same sends nothing to the terminal."""

    def __init__(self, *, id: str, ellipsis: str) -> None:
        super().__init__(id=id)
        self._ellipsis = ellipsis
        self._shown: list[tuple[Piece, ...]] = []
        self._width = 0

    def show(self, lines: Sequence[Sequence[Piece]]) -> None:
        """Lines from the top; those beyond the widget's height are not seen."""
        width = self.size.width
        before = self._shown if width == self._width else []
        self._shown, self._width = [tuple(line) for line in lines], width
        changed = {
            y: line_of(line, width, self._ellipsis)
            for y, line in enumerate(self._shown)
            if y >= len(before) or before[y] != line
        }
        self.put(changed, len(self._shown))
