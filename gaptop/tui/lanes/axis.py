"""The time axis: wall-clock labels at round times, which stay with their columns."""

from __future__ import annotations

from typing import Final

from gaptop.tui import palette
from gaptop.tui.cells import Row, row_of
from gaptop.tui.scene import Scene

_STEPS: Final = (
    *(step * 10.0**power for power in range(-3, 0) for step in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0),
)

NOW: Final = "now"
"""Beside the newest column of a sweep."""


def axis_row(scene: Scene) -> Row:
    """One row under the lanes, as it stands on screen. In a sweep it says where now is."""
    view, glyphs, places = scene.view, scene.glyphs, scene.places
    digits = 3 if view.seconds < 0.01 else 1 if view.seconds < 0.1 else 0
    room = 10 + digits + 4
    step = next((step for step in _STEPS if step / view.seconds >= room), _STEPS[-1])
    cells: Row = [(glyphs.rule, palette.DIM)] * view.columns
    shift = _offset(scene, step)
    tick = int((view.start + shift) // step)
    while (t := tick * step - shift) < view.end:
        tick += 1
        column = view.column_at(t) - view.first
        label = row_of(scene.clock(t, digits), palette.DIM)
        place = places.place(view.first + column)
        if place is not None and max(column, place) + 1 + len(label) <= view.columns:
            cells[column] = (glyphs.axis_mark, palette.DIM)
            cells[column + 1 : column + 1 + len(label)] = label
    for column in scene.ranged():
        cells[column] = (cells[column][0], palette.REVERSE)
    cursor = scene.marks()[2]
    if cursor is not None and cells[cursor][0] == glyphs.rule:
        cells[cursor] = (glyphs.axis_mark, palette.BOLD)
    fits = places.turn + 1 + len(NOW) <= view.columns
    rest: Row = row_of(NOW, palette.LIVE) if fits else [(glyphs.rule, palette.DIM)] * len(NOW)
    return places.arrange(cells, [(glyphs.cursor, palette.LIVE), *rest])


def _offset(scene: Scene, step: float) -> float:
    """Seconds from the last round wall-clock time to the stream's start, so that ticks fall on round times."""
    if scene.start is None:
        return 0.0
    local = scene.start.astimezone(scene.zone)
    seconds = local.hour * 3600 + local.minute * 60 + local.second + local.microsecond / 1e6
    return seconds % max(step, 1.0) if step >= 1.0 else seconds % 1.0
