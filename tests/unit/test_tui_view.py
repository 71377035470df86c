"""Zooming and panning: columns on an absolute grid, within what a screen may show."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.tui import layout
from gaptop.tui.view import LADDER, View, usual_view

_STEPS = st.lists(st.sampled_from(["in", "out", "left", "right", "follow", "resize", "fit"]), max_size=30)


@given(_STEPS, st.integers(20, 250), st.floats(0, 5000))
def test_any_walk_keeps_the_screen_between_ten_milliseconds_and_an_hour(
    steps: list[str], columns: int, now: float
) -> None:
    view = usual_view(columns, now)
    for step in steps:
        match step:
            case "in" | "out":
                view = view.zoom(1 if step == "in" else -1, (view.start + view.end) / 2, now)
            case "left" | "right":
                view = view.pan(-7 if step == "left" else 7, now)
            case "follow":
                view = view.follow(now)
            case "resize":
                view = view.resize(60, now).resize(columns, now)
            case "fit":
                view = view.fit(now / 3, now / 2)
        assert view.span >= 0.0099
        assert view.span - view.seconds < 3600 * 2
        assert view.columns == columns
        if view.following:
            assert view.shows(now)
            assert view.end - now <= view.seconds + 1e-6


def test_a_following_view_moves_by_whole_columns() -> None:
    view = usual_view(120, 30.1)
    assert view.seconds == 0.5
    assert view.advance(30.4) == view
    assert view.advance(30.5).start == view.start + 0.5
    assert view.hold().advance(99.0).start == view.start


def test_zoom_keeps_what_is_under_the_pointer() -> None:
    view = usual_view(100, 60.0)
    anchor = view.time_at(view.first + 30)
    closer = view.zoom_at(2, anchor, 60.0)
    assert not closer.following
    assert closer.seconds < view.seconds
    assert closer.column_at(anchor) - closer.first == 30


def test_zoom_of_a_live_view_stays_live() -> None:
    view = usual_view(100, 60.0).zoom(-1, 40.0, 60.0)
    assert view.following
    assert view.shows(60.0)


@given(st.integers(40, 250), st.floats(0, 3000), st.floats(1.0, 3500))
def test_what_is_fitted_is_all_on_screen_and_fills_most_of_it(columns: int, start: float, length: float) -> None:
    view = usual_view(columns, start + length).fit(start, start + length)
    assert view.shows(start)
    assert view.shows(start + length - 1e-6)
    touched = view.column_at(start + length - 1e-6) - view.column_at(start) + 1
    assert touched >= 0.73 * columns
    assert abs((view.column_at(start) - view.first) - (view.right - view.column_at(start + length - 1e-6))) <= 1


def test_hours_are_shown_whole_and_zooming_out_does_not_show_less() -> None:
    view = usual_view(88, 9000.0).fit(0.0, 9000.0)
    assert view.shows(0.0)
    assert view.shows(8999.0)
    assert view.zoom(-3, 4500.0, 9000.0) == view
    assert view.zoom(3, 4500.0, 9000.0).span < view.span


@pytest.mark.parametrize(("columns", "hours"), [(60, 6), (120, 24), (60, 72)])
def test_a_day_is_shown_whole(columns: int, hours: int) -> None:
    view = usual_view(columns, 10.0).fit(0.0, hours * 3600.0)
    assert view.start <= 0.0
    assert view.end >= hours * 3600.0


def test_a_moment_is_fitted_too() -> None:
    view = usual_view(52, 100.0).fit(41.3, 41.3)
    assert view.shows(41.3)
    assert view.span >= 0.0099


def test_panning_stops_at_the_newest_moment_and_near_the_start() -> None:
    view = usual_view(100, 60.0)
    assert view.pan(50, 60.0).right == view.right
    back = view.pan(-100_000, 60.0)
    assert back.shows(0.0)


def test_the_ladder_is_sorted_and_round() -> None:
    assert list(LADDER) == sorted(set(LADDER))
    assert max(after / before for before, after in pairwise(LADDER)) < 1.34
    assert all(round(seconds * 1e6) == pytest.approx(seconds * 1e6) for seconds in LADDER), "whole microseconds"
    assert {0.1, 1.0, 10.0, 60.0, 300.0} <= set(LADDER)
    assert View(0, 100, 0, True).seconds == 0.0001


@given(st.integers(layout.SMALLEST[1], 120), st.integers(1, 16))
def test_rows_are_never_overdrawn(height: int, devices: int) -> None:
    split = layout.split(height)
    noted = layout.split(height, 2)
    assert (noted.ledger - split.ledger, split.lanes - noted.lanes) == ((2, 2) if height >= 30 else (0, 0))
    lanes = [("busy", 1)] * devices + [("power", 2)] * devices
    lanes += [("queue", 3), ("tokens", 4), ("prompt", 5), ("kv", 6), ("engine", 7), ("valleys", 9)]
    heights = layout.share(split.lanes, lanes, height >= layout.TALL)
    assert sum(heights) <= split.lanes
    assert heights[-1] == 1
    assert 2 + 1 + split.lanes + 1 + 1 + split.detail + split.ledger + 1 == height


def test_small_terminals_keep_busy_queue_tokens_and_valleys() -> None:
    kinds = ["busy", "power", "queue", "tokens", "prompt", "kv", "engine", "front end", "valleys"]
    digits = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    heights = dict(
        zip(kinds, layout.share(layout.split(24).lanes, list(zip(kinds, digits, strict=True)), False), strict=True)
    )
    assert all(heights[kind] >= 1 for kind in ("busy", "queue", "tokens", "valleys"))
    assert heights["queue"] == 2
    assert heights["power"] == heights["prompt"] == 0
    wanted = layout.share(layout.split(24).lanes, list(zip(kinds, digits, strict=True)), False, frozenset({5}))
    assert wanted[kinds.index("prompt")] == 1


def test_widths_add_up() -> None:
    for width in (60, 80, 99, 100, 120, 200):
        widths = layout.widths(width)
        assert widths.gutter + widths.cells + 1 + widths.value == width
    assert layout.too_small(59, 40)
    assert layout.too_small(80, 15)
    assert not layout.too_small(*layout.SMALLEST)
