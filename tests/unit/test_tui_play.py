"""A recording plays: the cursor is its head, with steps, speed and pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.tui.position import Position
from tests.unit.test_tui_screen import running


@given(st.lists(st.floats(0.0, 5.0, allow_nan=False), max_size=60), st.integers(-8, 8))
def test_the_head_moves_with_the_time_at_its_speed_stays_on_screen_and_ends_with_the_recording(
    passed: list[float], faster: int
) -> None:
    position = Position(90, 60.0)
    position.view = position.view.fit(0.0, 20.0)
    position.faster(faster)
    assert 1 / 16 <= position.speed <= 64
    position.toggle_play(60.0)
    begun = position.cursor
    assert begun is not None
    for seconds in passed:
        position.play(seconds, 60.0)
        assert position.cursor is not None
        assert position.view.shows(position.cursor)
    assert position.cursor == pytest.approx(min(60.0, begun + sum(passed) * position.speed))
    assert position.playing == (begun + sum(passed) * position.speed < 60.0)


def test_once_at_the_end_it_plays_from_the_start() -> None:
    position = Position(90, 60.0)
    position.toggle_play(60.0)
    position.play(1e6, 60.0)
    assert not position.playing
    position.toggle_play(60.0)
    assert position.cursor == 0.0


async def test_space_plays_a_recording_and_holds_it_again() -> None:
    async with running(live=False, ends="end of the recording") as screen:
        await screen.press("space")
        assert "PLAYING 1x" in screen.rows[0]
        assert "hold" in screen.rows[-1]
        await screen.press("greater_than_sign", "greater_than_sign")
        assert "PLAYING 4x" in screen.rows[0]
        await screen.press("space")
        assert "PLAYING" not in screen.rows[0]


async def test_brackets_step_the_head_and_stop_it() -> None:
    async with running(live=False, ends="end of the recording") as screen:
        await screen.press("space", "right_square_bracket")
        assert "PLAYING" not in screen.rows[0]
        before = screen.app._main.scene().cursor
        await screen.press("right_square_bracket")
        after = screen.app._main.scene().cursor
        assert before is not None
        assert after is not None
        assert after - before == pytest.approx(max(0.25, screen.app._main.view.seconds))
        await screen.press("left_square_bracket")
        assert screen.app._main.scene().cursor == pytest.approx(before)
