"""What is said in the last line: each message has an end, and can be read whole."""

from __future__ import annotations

import pytest

from gaptop.tui.notice import Notice
from tests.unit.test_tui_screen import running

REMEDY = "start gaptop in a folder that can be written, then press the key again."


def test_an_answer_ends_with_the_next_key_and_news_after_a_while_only() -> None:
    now = [0.0]
    notice = Notice(lambda: now[0])
    notice.answer("That was the last valley.")
    assert notice.text == "That was the last valley."
    assert notice.end_answer()
    assert notice.text == ""
    assert not notice.end_answer()
    notice.tell("Snapshot written.")
    assert not notice.end_answer()
    assert notice.text == "Snapshot written."
    now[0] = 11.9
    assert notice.text
    now[0] = 12.0
    assert notice.text == ""
    notice.answer("No valley to zoom to.")
    now[0] = 24.0
    assert notice.text == "", "an answer is gone after a while too"


@pytest.mark.parametrize("key", ["space", "n", "left", "question_mark", "v", "comma"])
async def test_what_a_key_was_answered_is_gone_with_the_next_one(key: str) -> None:
    async with running() as screen:
        await screen.press("tab")
        assert "There is one server and one device" in screen.rows[-1]
        await screen.press(key)
        await screen.frame()
        assert "There is one server" not in screen.text


async def test_a_click_and_the_wheel_end_an_answer_too() -> None:
    async with running() as screen:
        await screen.press("tab")
        await screen.pilot.click(offset=(40, 5))
        await screen.pilot.pause()
        assert "There is one server" not in screen.text


async def test_where_a_file_went_stays_to_be_read_while_one_goes_on() -> None:
    async with running() as screen:
        await screen.press("s")
        await screen.until("Snapshot written: host-140312.gaptop (gaptop open /tmp/host-140312.gaptop)")
        await screen.press("space", "left", "n")
        assert "Snapshot written" in screen.rows[-1]
        await screen.press("escape")
        assert "Snapshot written" not in screen.rows[-1]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_long_message_is_told_whole(size: tuple[int, int]) -> None:
    async with running(size=size) as screen:
        screen.feed.refuse = OSError(28, "No space left on device")
        before = screen.rows[-2]
        await screen.press("s")
        await screen.until(REMEDY)
        assert "quit" not in screen.rows[-1]
        await screen.press("escape")
        await screen.frame()
        assert screen.rows[-2] == before


async def test_escape_drops_the_filter_that_the_message_names() -> None:
    async with running() as screen:
        await screen.press("slash", *"zzz", "enter", "v", "n")
        assert "Esc drops the filter." in screen.rows[-1]
        await screen.press("escape", "n")
        assert "Esc drops" not in screen.rows[-1]
        assert "selected valley" in screen.text
