"""Going to a moment, and selecting a stretch of time: by what is typed, by keys and by the pointer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.tui.position import Position
from gaptop.tui.ranged import RangeLedger
from gaptop.tui.times import parse
from tests.unit.test_tui_screen import running

START = datetime(2026, 3, 1, 23, 59, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("23:59:30", 0.0),
        ("23:59:42.5", 12.5),
        ("00:00:10", 40.0),
        ("00:01", 90.0),
        ("+12", 12.0),
        ("+1.5 m", 90.0),
        ("+250ms", 0.25),
        ("-30", 70.0),
        (" -1m ", 40.0),
    ],
)
def test_a_moment_as_people_type_it(text: str, seconds: float) -> None:
    assert parse(text, START, UTC, 100.0) == pytest.approx(seconds)


def test_a_time_of_day_is_meant_in_the_viewer_s_zone_and_never_later_than_now() -> None:
    zone = timezone(timedelta(hours=2))
    assert parse("01:59:40", START, zone, 100.0) == pytest.approx(10.0)
    assert parse("23:59:40", START, UTC, 5.0) < 5.0


@pytest.mark.parametrize("text", ["", "soon", "25:00", "12:61", "12:00:61", "1e400", "--3", "[red]", "+", "١٢:00x"])
def test_what_is_no_time_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="type one like"):
        parse(text, START, UTC, 100.0)


def test_without_a_start_only_seconds_can_be_meant() -> None:
    assert parse("+3", None, UTC, 9.0) == 3.0
    with pytest.raises(ValueError, match="does not say when it began"):
        parse("12:00", None, UTC, 9.0)


@given(st.floats(0, 86_399, allow_nan=False), st.floats(0, 80_000, allow_nan=False))
def test_a_shown_clock_typed_back_leads_to_the_same_second(t: float, later: float) -> None:
    now = t + later
    if later > 86_000:
        return
    shown = (START + timedelta(seconds=t)).strftime("%H:%M:%S.%f")
    assert parse(shown, START, UTC, now) == pytest.approx(t, abs=1e-3)


def test_a_range_goes_from_the_anchor_to_the_cursor_in_whole_columns_either_way() -> None:
    position = Position(100, 60.0)
    position.step_cursor(0)
    position.mark()
    width = position.view.seconds
    position.step_cursor(4)
    assert position.selected is not None
    assert position.selected[1] - position.selected[0] == pytest.approx(5 * width)
    position.step_cursor(-6)
    assert position.selected[1] - position.selected[0] == pytest.approx(3 * width)
    position.mark()
    kept = position.selected
    position.step_cursor(9)
    assert position.selected == kept
    position.back()
    assert position.selected is None


async def test_the_ledger_and_the_snapshot_follow_the_selected_time() -> None:
    async with running() as screen:
        await screen.press("comma", "r", *["comma"] * 7)
        assert "SELECTED" in screen.text
        selected = screen.app._main.scene().selected
        assert selected is not None
        await screen.press("s")
        start, end = screen.feed.saved[-1][:2]
        assert (start, end) == pytest.approx(selected)
        await screen.press("escape")
        assert "SELECTED" not in screen.text
        assert "IN VIEW" in screen.text


async def test_while_a_range_is_selected_the_last_line_says_what_to_press_next() -> None:
    async with running(size=(80, 24)) as screen:
        assert "SELECTING" not in screen.rows[-1]
        await screen.press("r")
        assert " SELECTING  , . move its end  r done  Esc drop it " in screen.rows[-1]
        await screen.press("comma", "comma")
        assert "SELECTING" in screen.rows[-1]
        await screen.press("r")
        assert screen.rows[-1].startswith(" Selected 14:02:")
        assert "s snapshot of it, x trace, Esc drops it." in screen.rows[-1]
        await screen.press("escape")
        assert "space" in screen.rows[-1]
        assert screen.app._main.scene().selected is None


async def test_escape_drops_the_range_before_it_closes_what_is_open() -> None:
    async with running() as screen:
        await screen.press("v", "comma", "r", *["comma"] * 7, "r")
        assert "SELECTED" in screen.text
        assert "valleys:" in screen.text
        await screen.press("escape")
        assert screen.app._main.scene().selected is None
        assert "valleys:" in screen.text
        await screen.press("escape")
        assert "valleys:" not in screen.text


async def test_a_message_does_not_hide_what_to_press_next() -> None:
    async with running(size=(80, 24)) as screen:
        await screen.press("s")
        await screen.until("Snapshot written")
        await screen.press("r")
        assert "SELECTING" in screen.rows[-1]
        assert "Snapshot written" in screen.rows[-2]


async def test_the_pointer_draws_a_range_and_a_click_without_moving_selects_a_valley() -> None:
    async with running() as screen:
        await screen.pilot.mouse_down(offset=(40, 5))
        await screen.pilot.hover(offset=(52, 5))
        await screen.pilot.mouse_up(offset=(52, 5))
        await screen.pilot.pause()
        scene = screen.app._main.scene()
        assert scene.selected is not None
        assert scene.selected[1] - scene.selected[0] == pytest.approx(13 * scene.view.seconds)
        await screen.press("escape")
        strip = next(row for row in screen.rows if row.startswith(" valleys"))
        await screen.pilot.click(offset=(strip.index("K═") + 3, 5))
        await screen.pilot.pause()
        scene = screen.app._main.scene()
        assert scene.selected is None
        assert scene.valley is not None
        assert scene.valley.verdict.cause == "cache_pressure"


async def test_g_goes_to_a_moment_and_says_what_may_be_typed_where_it_is_none() -> None:
    async with running() as screen:
        await screen.press("g", *"14:02:42", "enter")
        assert screen.app._main.scene().clock(screen.app._main.scene().cursor or 0.0) == "14:02:42"
        assert "14:02:42" in screen.rows[-16] or "14:02:42.0" in screen.text
        await screen.press("g", *"noon", "enter")
        assert "type one like" in screen.rows[-1]
        await screen.press("g", *"03:00", "enter")
        assert "Nothing was measured then" in screen.rows[-1]


async def test_the_ledger_of_a_part_is_not_added_up_for_every_frame() -> None:
    async with running() as screen:
        times = iter([0.0, 0.5, 1.0, 1.0, 24.0, 24.0, 24.0, 24.0, 24.5])
        part = RangeLedger(lambda: next(times))
        scene = screen.app._main.scene()
        first = part.of(scene)  # took half a second, so that it may be asked again after 25
        rolled = replace(scene, view=scene.view.pan(-3, scene.now))
        assert part.of(rolled) is first
        assert part.of(replace(rolled, selected=(10.0, 20.0))).selected
