"""What a column's cell says: nothing is bridged, nothing blank that is known, no zero hides in a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gaptop.timeline.types import Columns, Cover
from gaptop.tui.cells import Row, strip_of
from gaptop.tui.glyphs import ASCII, BLOCK, UNICODE, Glyphs
from gaptop.tui.lanes.bars import bar_rows
from gaptop.tui.lanes.line import line_rows
from gaptop.tui.palette import GREEN
from gaptop.tui.widgets.picture import cell_edges
from gaptop.tui.window import Window, combine

D, H, P, N = Cover.DATA, Cover.HOLE, Cover.PENDING, Cover.NOTHING


def columns(mean: Sequence[float], low: Sequence[float] | None = None, cover: Sequence[int] | None = None) -> Columns:
    state = np.array(cover if cover is not None else [D] * len(mean), dtype=np.uint8)
    blank = np.where(state == D, 1.0, np.nan)
    means = np.array(mean) * blank
    lows = np.array(low if low is not None else mean) * blank
    return Columns(0.0, float(len(mean)), means, lows, means, state)


def text(rows: list[Row]) -> list[str]:
    return ["".join(character for character, _ in row) for row in rows]


def test_bars_show_the_mean_in_eighths() -> None:
    assert text(bar_rows(columns([1.0, 0.5, 0.25, 0.0]), 1.0, 2, GREEN, UNICODE)) == ["█   ", "██▄_"]


def test_every_absence_has_its_own_look_and_none_is_zero() -> None:
    rows = text(bar_rows(columns([0.0, 1.0, 1.0, 1.0], cover=[D, H, P, N]), 1.0, 2, GREEN, UNICODE))
    assert rows == [" ░/ ", "_░/ "]


def test_a_zero_in_a_full_column_leaves_a_notch() -> None:
    clean = bar_rows(columns([0.9], [0.9]), 1.0, 3, GREEN, UNICODE)
    notched = bar_rows(columns([0.9], [0.0]), 1.0, 3, GREEN, UNICODE)
    assert text(clean) == ["▆", "█", "█"]
    assert text(notched) == ["▆", "█", "_"]
    assert notched[1][0][1].dim
    assert not clean[1][0][1].dim


def test_in_one_row_a_column_with_a_zero_is_shaded() -> None:
    [[(_, style)]] = bar_rows(columns([0.9], [0.0]), 1.0, 1, GREEN, UNICODE)
    assert style.dim


def test_what_is_not_zero_is_never_drawn_as_zero() -> None:
    assert text(bar_rows(columns([0.001]), 1.0, 1, GREEN, UNICODE)) == ["▁"]


def test_ascii_bars_are_ascii() -> None:
    rows = bar_rows(columns([1.0, 0.5, 0.0, 1.0, 1.0], cover=[D, D, D, H, P]), 1.0, 2, GREEN, ASCII)
    assert text(rows) == ["#  x/", "##_x/"]


def test_a_line_is_not_drawn_across_a_hole() -> None:
    halves = columns([0.9, 0.9, 0.9, 0.0, 0.0, 0.1, 0.1], cover=[D, D, D, H, H, D, D])
    [row] = line_rows(halves, 1.0, 1, GREEN, UNICODE)
    assert text([row]) == ["⠉░⣀"]


def test_neighbours_are_joined_by_a_riser() -> None:
    [row] = line_rows(columns([0.0, 0.0, 0.9]), 1.0, 1, GREEN, UNICODE)
    assert text([row]) == ["⡸"]


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII])
@pytest.mark.parametrize("height", [1, 2, 3])
def test_one_zero_among_ones_is_seen_in_a_line_at_every_height(glyphs: Glyphs, height: int) -> None:
    steady = line_rows(columns([0.9] * 5), 1.0, height, GREEN, glyphs)
    once = line_rows(columns([0.9] * 5, [0.9, 0.9, 0.9, 0.9, 0.0]), 1.0, height, GREEN, glyphs)
    assert [row[0] for row in once] == [row[0] for row in steady]
    assert [row[1] for row in once] != [row[1] for row in steady]
    assert once[-1][1][0] != " "


def test_a_line_in_ascii() -> None:
    assert text(line_rows(columns([0.0, 0.0, 0.0, 0.9, 0.9]), 1.0, 1, GREEN, ASCII)) == ['_"']


def test_a_strip_has_one_segment_a_style() -> None:
    row = bar_rows(columns([1.0, 1.0, 1.0], [1.0, 1.0, 0.0]), 1.0, 1, GREEN, UNICODE)[0]
    assert [segment.text for segment in strip_of(row)] == ["██", "█"]


def test_only_what_can_still_change_is_read_again() -> None:
    asked: list[tuple[float, float, int]] = []

    def fetch(start: float, end: float, n: int) -> Columns:
        asked.append((start, end, n))
        values = np.arange(round(start), round(start) + n, dtype=float)
        return Columns(start, end, values, values, values, np.full(n, D, np.uint8))

    window = Window()
    window.read(1.0, 0, 10, 8.0, fetch)
    rolled = window.read(1.0, 2, 10, 10.0, fetch)
    back = window.read(1.0, 0, 10, 10.0, fetch)
    assert asked == [(0.0, 10.0, 10), (8.0, 12.0, 4), (0.0, 2.0, 2)]
    assert rolled.mean.tolist() == list(range(2, 12))
    assert back.mean.tolist() == list(range(10))
    window.read(2.0, 0, 5, 10.0, fetch)
    assert asked[-1] == (0.0, 10.0, 5)


def test_a_sum_with_a_missing_part_is_missing() -> None:
    one = columns([1.0, 1.0, 1.0, 1.0], cover=[D, D, D, N])
    other = columns([2.0, 2.0, 2.0, 2.0], cover=[D, H, N, N])
    total = combine([one, other], "sum")
    assert total.cover.tolist() == [D, H, D, N]
    assert total.mean[0] == 3.0
    assert total.mean[2] == 1.0
    assert np.isnan(total.mean[1])
    assert combine([one, other], "max").mean[0] == 2.0


@pytest.mark.parametrize("cells", [1, 7, 24, 25, 52, 88, 170])
def test_patches_tile_the_picture_with_narrow_ones_at_the_right(cells: int) -> None:
    edges = cell_edges(cells)
    assert edges[0] == 0
    assert edges[-1] == cells
    assert edges == sorted(set(edges))
    assert edges[-1] - edges[-2] <= 8


@pytest.mark.parametrize(("cells", "most"), [(52, 3), (88, 3), (170, 4)])
def test_a_rolling_picture_has_few_patches(cells: int, most: int) -> None:
    assert len(cell_edges(cells)) - 1 <= most
    assert len(cell_edges(cells, sweeping=True)) - 1 > most
