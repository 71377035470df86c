"""The strip that names the valleys: a letter and a hue for the cause, the weight of the line for the confidence."""

from __future__ import annotations

from typing import Final

from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece, Row
from gaptop.tui.events import MILD, told
from gaptop.tui.lanes.lane import BLANK, Drawn
from gaptop.tui.scene import Scene, cost
from gaptop.valleys.model import LETTERS, Valley

_DIP: Final = "v"
_MILD: Final[Cell] = ("!", palette.WAIT)
_HAPPENED: Final[Cell] = ("!", palette.BAD)


class ValleyLane:
    key = "valleys"
    digit = 9

    def present(self, scene: Scene) -> bool:
        return True

    def draw(self, scene: Scene, height: int) -> Drawn:
        view, glyphs = scene.view, scene.glyphs
        start, end = view.start, view.end
        cells: Row = [BLANK] * view.columns
        for plateau in scene.assessment.plateaus:
            if plateau.start_s < end and plateau.end_s > start:
                for column in _range(scene, plateau.start_s, plateau.end_s):
                    cells[column] = (glyphs.plateau, palette.DIM)
        dips = [dip for dip in scene.assessment.dips if dip.start_s < end and dip.end_s > start]
        for dip in dips:
            for column in _range(scene, dip.start_s, dip.end_s):
                cells[column] = (_DIP, palette.PLAIN if dip.confirmed else palette.DIM)
        for event in sorted(told(scene, start, end), key=lambda event: event.what not in MILD):
            if view.shows(event.t):
                cells[view.column_at(event.t) - view.first] = _MILD if event.what in MILD else _HAPPENED
        shown = [
            v
            for v in scene.assessment.valleys
            if v.start_s < end and (scene.now if v.end_s is None else v.end_s) > start
        ]
        for valley in sorted(shown, key=lambda v: (v is scene.valley, v.idle_s or 0.0)):
            self._mark(scene, cells, valley)
        rows = [cells, *([BLANK] * view.columns for _ in range(height - 1))]
        count = f" {len(shown)} +{len(dips)} dips" if dips else f" {len(shown)} in view"
        value: tuple[Piece, ...] = ((count, palette.DIM),)
        return Drawn("valleys", rows, ("",) * height, (value, *(((),) * (height - 1))))

    def _mark(self, scene: Scene, cells: Row, valley: Valley) -> None:
        verdict, glyphs = valley.verdict, scene.glyphs
        columns = _range(scene, valley.start_s, scene.now if valley.end_s is None else valley.end_s)
        if not columns:
            return
        chosen = valley is scene.valley
        weight = {"high": glyphs.high, "medium": glyphs.medium, "low": glyphs.low}[verdict.confidence]
        style = palette.cause_style(verdict.cause, final=valley.final, bold=chosen)
        for column in columns:
            cells[column] = (weight, style)
        for segment in verdict.segments:
            inside = _range(scene, segment.start_s, segment.end_s)
            if segment.cause != verdict.cause and len(inside) > 0:
                part = palette.cause_style(segment.cause, final=valley.final, bold=chosen)
                for column in inside:
                    if column in columns:
                        cells[column] = (weight, part)
                if inside[0] in columns:
                    cells[inside[0]] = (LETTERS[segment.cause], part)
        begins = scene.view.shows(valley.start_s)
        ends = valley.end_s is not None and scene.view.shows(valley.end_s)
        letter = (LETTERS[verdict.cause], style)
        if begins or not ends:
            cells[columns[0]] = letter
        if ends and len(columns) > 1:
            cells[columns[-1]] = letter


def valley_at(scene: Scene, t: float) -> Valley | None:
    """The valley under a time, or the one whose drawn columns hold it; of several the costliest."""
    slack = scene.view.seconds
    under = [
        valley
        for valley in scene.assessment.valleys
        if valley.start_s - slack <= t <= (scene.now if valley.end_s is None else valley.end_s) + slack
    ]
    return max(under, key=lambda valley: cost(valley, scene.now), default=None)


def _range(scene: Scene, start: float, end: float) -> range:
    """Columns on screen that touch [start, end); an instant has one."""
    view = scene.view
    first = view.column_at(start) - view.first
    last = view.column_at(max(start, end - 1e-9)) - view.first
    return range(max(0, first), min(view.columns - 1, last) + 1)
