"""The valleys as a table: time, length, depth, cause, confidence, loss; the selected row stays in sight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.style import Style

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece
from gaptop.tui.listing import Listing, length
from gaptop.tui.scene import Scene
from gaptop.tui.text import fit, fit_right
from gaptop.valleys.model import LETTERS, Valley

_COLUMNS: Final = (("time", 12), ("length", 12), ("depth", 7), ("cause", 0), ("confidence", 11), ("loss", 16))
"""Names (those that one may sort by) and cells; the cause takes what is left."""
_SMALLEST: Final = 24
"""Cells of a cause at least: where there is less room, the least telling columns go."""
_GO: Final = ("depth", "confidence")


def table_lines(scene: Scene, listing: Listing, width: int, rows: int) -> list[list[Piece]]:
    """A line of names and at most ``rows - 1`` valleys. Each row can be clicked."""
    columns = _columns(width)
    lines = [_head(scene, listing, columns)]
    valleys = listing.rows(scene.assessment.valleys, scene.now)
    if not valleys:
        return [*lines, [(f"   {_nothing(scene, listing)}", palette.DIM)]]
    chosen = next((index for index, valley in enumerate(valleys) if _is_chosen(scene, valley)), 0)
    first = min(max(0, chosen - (rows - 1) // 2), max(0, len(valleys) - (rows - 1)))
    for valley in valleys[first : first + rows - 1]:
        lines.append(_row(scene, valley, columns))
    return lines


def _is_chosen(scene: Scene, valley: Valley) -> bool:
    return scene.valley is not None and scene.valley.id == valley.id


def _columns(width: int) -> list[tuple[str, int]]:
    columns = list(_COLUMNS)
    for name in _GO:
        if width - 3 - sum(cells for _, cells in columns) < _SMALLEST:
            columns = [item for item in columns if item[0] != name]
    room = width - 3 - sum(cells for _, cells in columns)
    return [(name, cells or room) for name, cells in columns]


def _head(scene: Scene, listing: Listing, columns: Sequence[tuple[str, int]]) -> list[Piece]:
    pieces: list[Piece] = [("   ", palette.PLAIN)]
    for name, cells in columns:
        sorted_by = name == listing.order
        text = name + (f" {'v' if scene.glyphs.ascii else '▾'}" if sorted_by else "")
        style = Style(bold=sorted_by or None, dim=not sorted_by or None, meta={"@click": f"app.list_order({name!r})"})
        pieces.append((fit(text, cells, scene.glyphs.ellipsis), style))
    return pieces


def _row(scene: Scene, valley: Valley, columns: Sequence[tuple[str, int]]) -> list[Piece]:
    chosen = _is_chosen(scene, valley)
    click = Style(meta={"@click": f"app.pick({valley.id!r})"})
    mark = scene.glyphs.selected if chosen else " "
    pieces: list[Piece] = [(f" {mark} ", (palette.BOLD if chosen else palette.PLAIN) + click)]
    for name, cells in columns:
        text, style = _cell(scene, valley, name)
        pieces.append((fit(text, cells - 1, scene.glyphs.ellipsis) + " ", style + click))
    return pieces


def _cell(scene: Scene, valley: Valley, name: str) -> Piece:
    verdict = valley.verdict
    if name == "time":
        return scene.clock(valley.start_s, 1), palette.PLAIN
    if name == "length":
        so_far = "+" if valley.end_s is None else ""
        return fit_right(f"{figures.seconds(length(valley, scene.now))}{so_far}", 9), palette.PLAIN
    if name == "depth":
        return fit_right("" if valley.depth_ratio is None else figures.ratio(valley.depth_ratio), 5), palette.PLAIN
    if name == "cause":
        detail = f" {scene.glyphs.dot} {scene.clean(verdict.detail)}" if verdict.detail else ""
        text = f"{LETTERS[verdict.cause]} {palette.TITLES[verdict.cause].lower()}{detail}"
        return text, palette.cause_style(verdict.cause, final=valley.final, bold=_is_chosen(scene, valley))
    if name == "confidence":
        return verdict.confidence if valley.final else f"({verdict.confidence})", palette.CONFIDENCE[verdict.confidence]
    return _loss(valley), palette.PLAIN


def _loss(valley: Valley) -> str:
    if valley.verdict.cause == "no_demand":
        return "no loss"
    if valley.tokens_lost:
        return f"{figures.grouped(valley.tokens_lost)} tokens"
    if valley.idle_s is not None:
        return f"{figures.seconds(valley.idle_s)} idle"
    return "not known" if valley.tokens_lost is None else "no tokens"


def _nothing(scene: Scene, listing: Listing) -> str:
    count = len(scene.assessment.valleys)
    if not count:
        return scene.none_found
    return scene.clean(f"None of {count} valleys: {listing.says()}. Esc drops the filter.")
