"""Two signals of one unit in one lane, one on top of the other: what runs, and on it what waits."""

from __future__ import annotations

import numpy as np

from gaptop.timeline.types import Columns, Cover
from gaptop.tui import figures
from gaptop.tui.cells import Piece, Row
from gaptop.tui.lanes.lane import Drawn
from gaptop.tui.lanes.series import SeriesLane
from gaptop.tui.lanes.stack_bars import Look, joint_cover, stack_rows
from gaptop.tui.lanes.torn import tear, torn_columns
from gaptop.tui.scene import Scene


class StackedLane:
    """Reads two lanes of one signal each and draws both. Where only one of them has a series, that one is drawn."""

    def __init__(self, key: str, label: str, lower: SeriesLane, upper: SeriesLane) -> None:
        self.key = key
        self.digit = lower.digit
        self._label = label
        self._lower = lower
        self._upper = upper
        self._top: tuple[Columns, Columns, float] | None = None
        self._rows: tuple[Columns, Columns, int, list[Row]] | None = None

    def present(self, scene: Scene) -> bool:
        return self._lower.present(scene) or self._upper.present(scene)

    def draw(self, scene: Scene, height: int) -> Drawn:
        lower, upper = self._lower.read(scene), self._upper.read(scene)
        if upper is None:
            return self._lower.draw(scene, height)
        if lower is None:
            return self._upper.draw(scene, height)
        top = self._reach(lower, upper)
        cells = self._cells(scene, lower, upper, top, height)
        scale = (figures.number(top), *("",) * (height - 2), "0") if height > 1 else (figures.number(top),)
        values = (self._lower.value(scene, lower), self._upper.value(scene, upper))
        told = (*values, *((),) * (height - 2)) if height > 1 else (_in_one(values),)
        return Drawn(self._label, cells, scale, told, self._lower.supports(scene) or self._upper.supports(scene))

    def _reach(self, lower: Columns, upper: Columns) -> float:
        """The upper end of the scale that both share: the highest sum."""
        if self._top is None or self._top[0] is not lower or self._top[1] is not upper:
            sums = np.where(
                joint_cover(lower, upper) == Cover.DATA, np.nan_to_num(lower.mean) + np.nan_to_num(upper.mean), 0.0
            )
            self._top = lower, upper, figures.nice_ceiling(float(sums.max(initial=0.0)))
        return self._top[2]

    def _cells(self, scene: Scene, lower: Columns, upper: Columns, top: float, height: int) -> list[Row]:
        """Cells are kept as long as nothing moved."""
        kept = self._rows
        if kept is None or kept[0] is not lower or kept[1] is not upper or kept[2] != height:
            look = Look(self._lower.color, self._upper.color)
            rows = stack_rows(lower, upper, top, height, look, scene.glyphs)
            torn = torn_columns(scene, dict.fromkeys((*self._lower.sources, *self._upper.sources)))
            self._rows = kept = lower, upper, height, tear(rows, torn, scene.glyphs, line=False)
        return kept[3]


def _in_one(values: tuple[tuple[Piece, ...], ...]) -> tuple[Piece, ...]:
    """Both numbers in one line: 16+4 wait."""
    below, above = values
    if len(below) < 2 or len(above) < 2:
        return below if len(below) < 2 else above
    return ((below[0][0] + "+" + above[0][0].strip(), above[0][1]), *above[1:])
