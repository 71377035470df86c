"""Rows of terminal cells, and the lines that Textual draws from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gaptop.tui.text import fit

Cell = tuple[str, Style]
"""One cell's character. A wide character is followed by a cell of no text."""
Row = list[Cell]
Piece = tuple[str, Style]
"""A run of (clean) text in one style."""


def row_of(text: str, style: Style) -> Row:
    """The (clean) text as cells."""
    if text.isascii():
        return [(character, style) for character in text]
    row: Row = []
    for character in text:
        row.append((character, style))
        row.extend([("", style)] * (cell_len(character) - 1))
    return row


def strip_of(cells: Sequence[Cell]) -> Strip:
    """Neighbours of one style become one segment; a space (no style here fills its cell) joins either."""
    segments: list[Segment] = []
    text, style = "", None
    for character, cell_style in cells:
        if cell_style is style or (character == " " and style is not None):
            text += character
            continue
        if style is not None:
            segments.append(Segment(text, style))
        text, style = character, cell_style
    if style is not None:
        segments.append(Segment(text, style))
    return Strip(segments, len(cells))


def width_of(pieces: Iterable[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


def line_of(pieces: Sequence[Piece], width: int, ellipsis: str) -> Strip:
    """The pieces as one line of exactly ``width`` cells."""
    segments: list[Segment] = []
    left = width
    for text, style in pieces:
        length = cell_len(text)
        if length > left:
            segments.append(Segment(fit(text, left, ellipsis), style))
            left = 0
            break
        segments.append(Segment(text, style))
        left -= length
    if left:
        segments.append(Segment(" " * left, Style.null()))
    return Strip(segments, width)


def spread(left: Sequence[Piece], right: Sequence[Piece], width: int) -> list[Piece]:
    """Two groups at the two ends of a line; the left one gives way."""
    room = width - width_of(right)
    kept: list[Piece] = []
    for text, style in left:
        if (length := cell_len(text)) > room:
            break
        kept.append((text, style))
        room -= length
    return [*kept, (" " * max(0, room), Style.null()), *right]
