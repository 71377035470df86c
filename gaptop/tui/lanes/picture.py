"""All lanes under one another on one time axis: label, scale, cells, value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len

from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece, Row, row_of, width_of
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.axis import NOW, axis_row
from gaptop.tui.lanes.lane import BLANK, Lane
from gaptop.tui.layout import Widths
from gaptop.tui.scene import Scene
from gaptop.tui.text import fit, fit_right


def picture_rows(scene: Scene, lanes: Sequence[tuple[Lane, int]], widths: Widths) -> list[Row]:
    """The rows of every lane with its height, and the axis below them."""
    rows: list[Row] = []
    marks, places = scene.marks(), scene.places
    beam: Row = [(scene.glyphs.cursor, palette.PLAIN), *([BLANK] * (places.gap - 1))]
    for lane, height in lanes:
        drawn = lane.draw(scene, height)
        for y in range(height):
            cells = list(drawn.cells[y])
            if lane.key != "valleys":
                _mark(cells, marks, scene.glyphs)
            if places.sweeping and not drawn.told:
                cells = places.arrange(cells, beam)
            label = scene.clean(drawn.label if y == 0 else drawn.under if y == 1 else "")
            gutter = _gutter(label, drawn.supports and y == 0, drawn.scale[y], widths, scene.glyphs)
            rows.append([*gutter, *cells, *_margin(drawn.values[y], widths, scene.glyphs)])
    axis: Row = [
        *row_of(" " * (widths.gutter - 1), palette.PLAIN),
        (scene.glyphs.corner, palette.DIM),
        *axis_row(scene),
    ]
    rows.append([*axis, *_moment(scene, widths)])
    return rows


def _moment(scene: Scene, widths: Widths) -> Sequence[Cell]:
    """Beside the axis: the time under the cursor, whose values stand above it; in a sweep the newest."""
    if scene.cursor is not None and scene.view.shows(scene.cursor):
        text, style = scene.clock(scene.cursor, 3 if scene.view.seconds < 0.05 else 1), palette.BOLD
    elif scene.sweeping:
        text, style = f"{NOW} {scene.clock(scene.now)}", palette.LIVE
    else:
        return [BLANK] * (widths.value + 1)
    return row_of(fit(f" {text}", widths.value + 1, scene.glyphs.ellipsis), style)


@lru_cache(maxsize=256)
def _gutter(label: str, supports: bool, scale: str, widths: Widths, glyphs: Glyphs) -> tuple[Cell, ...]:
    """Label, scale and the left edge of one row. A long label takes the scale's room."""
    text = (glyphs.selected if supports else " ") + label if label else ""
    room = widths.label
    if cell_len(text) > room:
        room, scale = widths.label + widths.scale, ""
    return (
        *row_of(fit(text, room, glyphs.ellipsis), palette.BOLD if supports else palette.PLAIN),
        *row_of(fit_right(scale, widths.label + widths.scale - room), palette.DIM),
        (glyphs.axis_left if scale else glyphs.cursor, palette.DIM),
    )


@lru_cache(maxsize=256)
def _margin(value: tuple[Piece, ...], widths: Widths, glyphs: Glyphs) -> tuple[Cell, ...]:
    """The right edge and the value of one row. Beside an old value its age matters more than its unit."""
    cells: Row = [(glyphs.cursor, palette.DIM)]
    if len(value) == 3 and width_of(value) > widths.value:
        [(number, style), unit, age] = value
        near = (f" {number.strip()}", style)
        value = (near, unit, age) if width_of((near, unit, age)) <= widths.value else (near, age)
    for text, style in value:
        cells += row_of(text, style)
    if len(cells) > widths.value + 1:
        cells = [*cells[: widths.value], (glyphs.ellipsis, palette.DIM)]
    return (*cells, *([BLANK] * (widths.value + 1 - len(cells))))


def _mark(cells: Row, marks: tuple[int | None, int | None, int | None], glyphs: Glyphs) -> None:
    """The explained valley's edges and the cursor run through what is empty, from lane to lane."""
    *edges, cursor = marks
    for column in edges:
        if column is not None and cells[column] == BLANK:
            cells[column] = (glyphs.edge, palette.DIM)
    if cursor is not None and cells[cursor][0] in (" ", glyphs.edge):
        cells[cursor] = (glyphs.cursor, palette.BOLD)
