"""Lanes that draw a signal: bars or a line, a scale, and the newest value with its unit and age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gaptop.timeline.aggregate import mean_columns
from gaptop.timeline.types import Columns, Cover, SeriesId
from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, Row
from gaptop.tui.lanes.bars import bar_rows
from gaptop.tui.lanes.instant import oldest_at, patience, window_at
from gaptop.tui.lanes.lane import Drawn, sentence_rows
from gaptop.tui.lanes.line import line_rows
from gaptop.tui.lanes.torn import tear, torn_columns
from gaptop.tui.scene import Scene
from gaptop.tui.window import Window, combine, settled_until

_ABSENT = {Cover.HOLE: "hole", Cover.PENDING: "pending", Cover.NOTHING: "no data"}


@dataclass(frozen=True, slots=True)
class Spec:
    """``signals[0]`` is drawn; all of them may be what a verdict rests on. ``how`` combines several series."""

    key: str
    digit: int
    label: str
    signals: tuple[str, ...]
    unit: str
    color: str
    how: str = "sum"
    full: float | None = None
    """The fixed upper end of the scale; None follows what is on screen."""
    limit: str | None = None
    """A signal whose newest value the scale must reach."""
    line: bool = False
    missing: str = ""
    """What to say where there is no such series; "" folds the lane."""
    absent: str = "not seen"
    """And in one or two words, at the right edge."""


class SeriesLane:
    """One signal of one source, or of all of them. ``ids`` chooses the series."""

    def __init__(
        self,
        spec: Spec,
        ids: Callable[[Scene], tuple[SeriesId, ...]],
        label: str = "",
    ) -> None:
        self.key = spec.key
        self.digit = spec.digit
        self._spec = spec
        self._label = label or spec.label
        self._ids = ids
        self._window = Window()
        self._read: tuple[object, Columns] | None = None
        self._highest: tuple[Columns, float] | None = None
        self._rates: dict[SeriesId, tuple[tuple[float, float], float | None]] = {}
        self._rows: tuple[Columns, float, int, list[Row]] | None = None
        self._drawn_ids: tuple[SeriesId, ...] = ()

    def present(self, scene: Scene) -> bool:
        return bool(self._spec.missing) or bool(self._ids(scene))

    def draw(self, scene: Scene, height: int) -> Drawn:
        spec, view = self._spec, scene.view
        columns = self.read(scene)
        supports = self.supports(scene)
        if columns is None:
            rows = sentence_rows(scene.clean(spec.missing), view.columns, height, scene)
            values = (((f" {spec.absent}", palette.DIM),), *(((),) * (height - 1)))
            return Drawn(self._label, rows, ("",) * height, values, told=True)
        top = self._top(scene, columns)
        cells = self._cells(scene, columns, top, height)
        scale = (self._scale(top), *("",) * (height - 2), "0") if height > 1 else (self._scale(top),)
        values = (self.value(scene, columns), self._beside(scene, columns), *((),) * (height - 2))
        return Drawn(self._label, cells, scale, values[:height], supports)

    @property
    def color(self) -> str:
        return self._spec.color

    @property
    def sources(self) -> tuple[str, ...]:
        """Of what was read last."""
        return tuple(dict.fromkeys(one.source for one in self._drawn_ids))

    def supports(self, scene: Scene) -> bool:
        return scene.rests_on(self._spec.signals)

    def read(self, scene: Scene) -> Columns | None:
        """The columns on screen; None where there is no such series."""
        ids = self._ids(scene)
        if not ids:
            return None
        if ids != self._drawn_ids:
            self._drawn_ids, self._window, self._rates = ids, Window(), {}
        return self._columns(scene, ids)

    def _cells(self, scene: Scene, columns: Columns, top: float, height: int) -> list[Row]:
        """Cells are kept as long as nothing moved."""
        if self._rows is None or self._rows[0] is not columns or self._rows[1:3] != (top, height):
            line, glyphs = self._spec.line, scene.glyphs
            rows = (line_rows if line else bar_rows)(columns, top, height, self._spec.color, glyphs)
            torn = torn_columns(scene, self.sources)
            self._rows = (columns, top, height, tear(rows, torn, glyphs, line=line))
        return self._rows[3]

    def _columns(self, scene: Scene, ids: tuple[SeriesId, ...]) -> Columns:
        """Read again only when the view moved or a source said something new."""
        said = tuple(
            (view.newest, view.watermark, len(scene.timeline.holes(one.source, scene.view.start, scene.view.end)))
            for one in ids
            if (view := scene.sources.get(one.source))
        )
        state = (scene.view, min(scene.view.column_at(scene.now), scene.view.right), ids, said)
        if self._read is None or self._read[0] != state:
            self._read = (state, self._fetch(scene, ids))
        return self._read[1]

    def _fetch(self, scene: Scene, ids: tuple[SeriesId, ...]) -> Columns:
        view, parts = scene.view, 2 if self._spec.line else 1
        lead = 1 if self._spec.line else 0
        settled = min(settled_until(scene.sources.get(one.source)) for one in ids)

        def fetch(start: float, end: float, n: int) -> Columns:
            if self._spec.how == "mean" and len(ids) > 1:
                return mean_columns(scene.timeline, ids, start, end, n)
            return combine([scene.timeline.columns(one, start, end, n) for one in ids], self._spec.how)

        first, count = view.first * parts - lead, view.columns * parts + lead
        return self._window.read(view.seconds / parts, first, count, settled, fetch)

    def _top(self, scene: Scene, columns: Columns) -> float:
        if self._spec.full is not None:
            return self._spec.full
        if self._highest is None or self._highest[0] is not columns:
            self._highest = columns, float(np.fmax.reduce(columns.mean, initial=0.0))
        highest = self._highest[1]
        if self._spec.limit:
            limits = [scene.timeline.latest(one) for one in scene.timeline.ids(self._spec.limit)]
            highest = max([highest, *(limit[1] for limit in limits if limit)])
        return figures.nice_ceiling(highest)

    def _scale(self, top: float) -> str:
        return "100" if self._spec.unit == "%" else figures.number(top)

    def value(self, scene: Scene, columns: Columns) -> tuple[Piece, ...]:
        """Under the cursor: that column's mean or why there is none. Else the newest. With its age when it is old."""
        ids, at = self._drawn_ids, self._under_cursor(scene)
        if at is not None and scene.cursor is not None:
            if columns.cover[at] != Cover.DATA:
                return ((_ABSENT[Cover(int(columns.cover[at]))], palette.DIM),)
            return self._figure(scene, float(columns.mean[at]), oldest_at(scene, ids, scene.cursor))
        newest = [(one, *reading) for one in ids if (reading := self._newest(scene, one))]
        if not newest:
            return (("no reading", palette.DIM),)
        old = [one for one, t, _ in newest if scene.now - t > patience(scene, one)]
        missing = len(ids) - len(newest) + len(old)
        if len(ids) > 1 and missing:
            return ((f" {missing}/{len(ids)} missing", palette.DIM),)
        values = [value for _, _, value in newest]
        value = (
            max(values) if self._spec.how == "max" else sum(values) / (len(values) if self._spec.how == "mean" else 1)
        )
        return self._figure(scene, value, scene.now - newest[0][1] if old and not scene.assessment.ended else None)

    def _under_cursor(self, scene: Scene) -> int | None:
        """The index of the cursor's column."""
        if scene.cursor is None or not scene.view.shows(scene.cursor):
            return None
        parts = 2 if self._spec.line else 1
        return (scene.view.column_at(scene.cursor) - scene.view.first + 1) * parts - 1 + (parts - 1)

    def _beside(self, scene: Scene, columns: Columns) -> tuple[Piece, ...]:
        """What the cursor's column holds: its lowest and highest value, or the bounds of the only window."""
        at = self._under_cursor(scene)
        if at is None or scene.cursor is None or columns.cover[at] != Cover.DATA:
            return ()
        low, high = (self._number(float(part[at])).strip() for part in (columns.low, columns.high))
        if low != high:
            return ((scene.clean(f" {low}–{high} {self._spec.unit}"), palette.DIM),)
        window = window_at(scene, self._drawn_ids[0], scene.cursor)
        return () if window is None else ((scene.clean(f" {window}"), palette.DIM),)

    def _newest(self, scene: Scene, one: SeriesId) -> tuple[float, float] | None:
        """(time, value) of the newest reading; of a counter the newest rate."""
        from gaptop_collectors.signals import SIGNALS, split_key

        signal = SIGNALS.get(split_key(one.key)[0])
        if signal is None or signal.kind != "counter":
            return scene.timeline.latest(one)
        last = scene.timeline.latest(one)
        if last is None:
            return None
        known = self._rates.get(one)
        if known is None or known[0] != last:
            known = self._rates[one] = last, scene.timeline.value_at(one, last[0])
        return None if known[1] is None else (last[0], known[1])

    def _number(self, value: float) -> str:
        return f"{value * 100:3.0f}" if self._spec.unit == "%" else figures.number(value)

    def _figure(self, scene: Scene, value: float, age: float | None) -> tuple[Piece, ...]:
        text = self._number(value)
        style = palette.BOLD if age is None else palette.DIM
        old = () if age is None else ((f" ({figures.age(age)})", palette.DIM),)
        return ((f"{text:>4}", style), (f" {self._spec.unit}", palette.DIM), *old)
