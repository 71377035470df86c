"""The screen itself: every key, the mouse, small terminals, a feed that ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from gaptop.recording.lines import Event, Header, Health, Line, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.keys import KEYS
from gaptop.tui.scene import Scene
from gaptop.tui.screens.help import Help
from gaptop.tui.session import Analysis, Session
from gaptop.valleys.model import Assessment
from tests.screenshots.canned import DEVICE, LENGTH, CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

LINES = list(stream(60.0))


class Screen:
    """A running app, and what it shows as text."""

    def __init__(self, app: GaptopApp, pilot: Pilot[None], feed: CannedFeed) -> None:
        self.app = app
        self.pilot = pilot
        self.feed = feed

    @property
    def rows(self) -> list[str]:
        return ["".join(segment.text for segment in strip) for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def feed_more(self, *lines: Line) -> None:
        self.feed.add(*lines)
        await self.frame()

    async def until(self, text: str) -> None:
        """Frames until that is shown, however its words are broken; a crowded machine takes its time to lay out."""
        for _ in range(40):
            if text in " ".join(row.strip() for row in self.rows):
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"{text!r} is not shown:\n{self.text}")

    async def frame(self) -> None:
        self.app._tick()
        await self.pilot.pause()


@asynccontextmanager
async def running(
    lines: list[Line] | None = None,
    size: tuple[int, int] = (120, 40),
    clock: Callable[[], float] = lambda: 0.0,
    ascii_only: bool = False,
    analyse: Callable[[Timeline], Analysis] = CannedAnalysis,
    **feed: Any,
) -> AsyncIterator[Screen]:
    source = CannedFeed(LINES if lines is None else lines, **feed)
    options = ScreenOptions(ascii=ascii_only, fps=0.01, version="0.1.0", log_path="/var/log/g.log", timezone=UTC)
    app = GaptopApp(source, classify, options, analyse, clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = Screen(app, pilot, source)
        await screen.frame()
        await screen.frame()
        yield screen


async def test_the_first_screen_tells_when_why_how_sure_and_what_to_do() -> None:
    async with running() as screen:
        for part in (
            "14:02:52",
            "7.0 s",
            "K CACHE PRESSURE",
            "HIGH",
            "KV BLOCKED",
            "Raise --gpu-memory-utilization",
            "LIVE",
        ):
            assert part in screen.text


async def test_space_holds_the_view_while_measuring_goes_on() -> None:
    async with running() as screen:
        await screen.press("space")
        before = screen.rows[4]
        await screen.feed_more(*[line for line in stream(LENGTH) if isinstance(line, Tick) and line.t > 60.0])
        assert "PAUSED, live is +" in screen.rows[0]
        assert screen.app._session.now == LENGTH
        assert screen.rows[4] == before
        await screen.press("space")
        assert "LIVE" in screen.rows[0]


async def test_text_is_made_once_a_second_but_a_verdict_or_a_source_that_fails_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = [line for line in stream(LENGTH) if isinstance(line, Tick) and line.t > 60.0]
    async with running() as screen:
        made: list[float] = []
        main, money = screen.app._main, screen.app._main._money
        monkeypatch.setattr(main._aside, "_clock", lambda: 0.0)
        screen.app._main.draw()

        def noted(scene: Scene, *rest: Any) -> Any:
            made.append(scene.now)
            return money(scene, *rest)

        monkeypatch.setattr(main, "_money", noted)
        for line in later[:8]:
            await screen.feed_more(line)
        assert made == []
        lost = Health(62.1, DEVICE, "devices.nvml", "failing", 60.0, 0.2, 0.01, "It is lost.")
        await screen.feed_more(lost, later[8])
        await screen.frame()  # every second one is left out while nothing moves
        assert "device failing" in screen.rows[1]
        assert made == [later[8].t]


async def test_pan_page_and_live() -> None:
    async with running() as screen:
        main = screen.app._main
        right = main.view.right
        await screen.press("left")
        assert main.view.right == right - main.view.columns // 8
        await screen.press("l")
        assert main.view.right == right
        await screen.press("shift+left")
        assert main.view.right < right - main.view.columns // 8
        await screen.press("L")
        assert main.view.following


async def test_zoom_keys() -> None:
    async with running() as screen:
        main = screen.app._main
        usual = main.view.seconds
        await screen.press("plus", "plus")
        assert main.view.seconds < usual
        await screen.press("minus")
        await screen.press("equals_sign")
        assert main.view.seconds == usual


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_recording_fills_the_screen_when_it_was_read_and_again_by_0(size: tuple[int, int]) -> None:
    async with running(live=False, ends="end of the recording", size=size) as screen:
        view = screen.app._main.view
        assert view.shows(0.1)
        assert view.shows(59.9)
        assert view.span < 60 * 1.35
        await screen.press("plus", "plus", "left")
        assert screen.app._main.view.span < 20
        await screen.press("0")
        assert screen.app._main.view == view


async def test_valleys_are_stepped_through_and_zoomed_to() -> None:
    async with running() as screen:
        await screen.press("n", "n")
        assert "HOST STARVATION" in screen.text
        await screen.press("N")
        assert "CACHE PRESSURE" in screen.text
        assert "selected valley, 3 of 5" in screen.text
        await screen.press("enter")
        assert screen.app._main.view.shows(32.0)
        assert screen.app._main.view.span < 30
        for _ in range(5):
            await screen.press("N")
        assert "That was the first valley." in screen.rows[-1]


async def test_escape_drops_the_selection_and_never_quits() -> None:
    async with running() as screen:
        await screen.press("N")
        await screen.press("escape", "escape", "escape")
        assert screen.app.is_running
        assert "costliest valley in view" in screen.text


async def test_the_cursor_shows_the_values_of_its_column() -> None:
    async with running() as screen:
        newest = screen.rows[3][-15:]
        screen.app._main.move(lambda position, now: setattr(position, "cursor", 35.0))
        await screen.pilot.pause()
        assert "21 %" in screen.rows[3][-15:]
        assert screen.rows[3][-15:] != newest
        screen.app._main.move(lambda position, now: setattr(position, "cursor", 18.0))
        screen.app._main.move(lambda position, now: position.pan(-20, now))
        await screen.pilot.pause()
        assert "hole" in screen.rows[3][-15:]
        await screen.press("full_stop", "comma")


async def test_lanes_fold_and_unfold() -> None:
    async with running() as screen:
        assert any(row.startswith(" power") for row in screen.rows)
        await screen.press("2")
        assert not any(row.startswith(" power") for row in screen.rows)
        assert "folded: 2 power" in screen.text
        await screen.press("2")
        assert any(row.startswith(" power") for row in screen.rows)


async def test_a_snapshot_says_where_it_went() -> None:
    async with running() as screen:
        await screen.press("s")
        await screen.pilot.pause(0.1)
        assert "Snapshot written: host-140312.gaptop (gaptop open /tmp/host-140312.gaptop)" in screen.rows[-1]
        [(start, end, verdicts)] = screen.feed.saved
        assert 0 <= start < end <= 60.0
        assert [verdict["cause"] for verdict in verdicts][-2:] == ["host_starvation", "no_demand"]


async def test_a_snapshot_that_fails_says_so_and_the_screen_goes_on() -> None:
    async with running() as screen:
        screen.feed.refuse = OSError(28, "No space left on device")
        await screen.press("s")
        await screen.pilot.pause(0.1)
        assert "No snapshot was written: No space left on device" in screen.rows[-2]
        assert not screen.app._saving


async def test_help_shows_every_key_the_log_and_that_nothing_is_changed() -> None:
    async with running() as screen:
        await screen.press("question_mark")
        assert isinstance(screen.app.screen, Help)
        assert "read-only" in screen.text
        assert "/var/log/g.log" in screen.text
        told = " ".join(str(screen.app.screen.query_one("#help-text", Static).render()).split())
        assert "a letter inside a valley's line: from there on a part of it has that letter's cause" in told
        await screen.press("escape")
        assert not isinstance(screen.app.screen, Help)
        await screen.press("question_mark", "q")
        assert screen.app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_quit(key: str) -> None:
    async with running() as screen:
        await screen.press(key)
        assert not screen.app.is_running


def test_every_key_has_a_name_and_says_what_it_does() -> None:
    names = [binding.id for binding in KEYS]
    assert all(names)
    assert len(set(names)) == len(names)
    assert all(binding.tooltip and binding.description for binding in KEYS)


async def test_a_click_selects_a_valley_and_the_wheel_zooms_at_the_pointer() -> None:
    async with running() as screen:
        row = next(y for y, text in enumerate(screen.rows) if text.startswith(" valleys"))
        x = screen.rows[row].index("K═") + 3
        await screen.pilot.click(offset=(x, row))
        await screen.pilot.pause()
        assert "CACHE PRESSURE" in screen.text
        assert "selected valley" in screen.text
        before = screen.app._main.view
        at = before.first + x - screen.app._main._widths.gutter
        anchor = before.time_at(at)
        screen.app._main.on_wheel_turned(_wheel(x))
        after = screen.app._main.view
        assert after.seconds < before.seconds
        assert after.column_at(anchor) - after.first == at - before.first


@pytest.mark.parametrize("size", [(20, 5), (59, 30), (1, 1), (120, 10)])
async def test_a_small_terminal_says_so_and_comes_back(size: tuple[int, int]) -> None:
    async with running() as screen:
        await screen.pilot.resize_terminal(*size)
        if size[0] >= 20:
            await screen.until("terminal too small")
        await screen.pilot.resize_terminal(80, 24)
        await screen.until("valleys")


async def test_eighty_by_twenty_four_has_all_that_matters() -> None:
    async with running(size=(80, 24)) as screen:
        for part in (
            "busy",
            "queue",
            " run ",
            " wait ",
            "decode",
            "valleys",
            "CACHE PRESSURE",
            "HIGH",
            "for",
            "against",
            "try",
        ):
            assert part in screen.text
        assert all(len(row.rstrip()) <= 80 for row in screen.rows)


async def test_ascii_mode_is_ascii_everywhere() -> None:
    async with running(ascii_only=True) as screen:
        assert screen.text.isascii()
        await screen.press("question_mark")
        assert screen.app._session.lines > 0


async def test_nothing_known_yet_is_said_in_sentences() -> None:
    async with running(lines=[]) as screen:
        for part in (
            "waiting for the first reading",
            "No device is seen yet.",
            "No server has answered yet.",
            "No thread of",
        ):
            assert part in screen.text
        assert "Nothing has been measured yet." in screen.text


async def test_what_a_collector_says_stands_in_its_lane() -> None:
    header = Header("gaptop", (1, 0), "0.1.0", "2025-03-14T14:02:20Z", 0)
    says = "NVML is absent: install the driver [bold]\x1b[2J"
    lines: list[Line] = [header, Health(0.1, "devices.nvml", "devices.nvml", "absent", says=says), Tick(0.25)]
    async with running(lines=lines) as screen:
        assert "NVML is absent: install the driver [bold]␛[2J" in screen.text
        assert "✗ device absent" in screen.text


async def test_a_feed_that_ends_is_named_and_the_screen_stays() -> None:
    async with running(live=False, ends="end of the recording") as screen:
        assert " end of the recording " in screen.rows[0]
        assert "stream ended" not in screen.rows[0]
        assert screen.app.is_running
        assert screen.app._main.view.shows(1.0)
        assert screen.app._main.view.shows(59.0)


class _NoValley(CannedAnalysis):
    def apply(self, line: Line) -> Any:
        return None

    def finish(self) -> Assessment:
        return Assessment(60.0, sentence="None.", ended=True)


async def test_a_recording_that_was_read_has_no_valley_so_far_and_no_ages() -> None:
    later = [*LINES, Tick(75.0)]
    async with running(lines=later, live=True, analyse=_NoValley) as screen:
        assert "device 15 s old" in screen.rows[1]
        assert "No valley so far." in screen.text
        assert "(15 s)" in screen.text
    async with running(lines=later, live=False, ends="end of the recording", analyse=_NoValley) as screen:
        assert "● device (5/s)" in screen.rows[1]
        assert " s " not in screen.rows[1]
        assert "old" not in screen.rows[1]
        assert "(15 s)" not in screen.text
        assert "No valley at all." in screen.text
        await screen.press("n")
        assert screen.rows[-1].startswith(" No valley at all.")
        await screen.press("v")
        assert "   No valley at all." in screen.text


async def test_a_long_reason_for_the_end_is_told_whole_once() -> None:
    why = "run.gaptop was read up to its last whole line only: its last part is missing."
    async with running(live=False, ends=why) as screen:
        assert "stream ended: run.gaptop was read up" in screen.rows[0]
        assert "gaptop" in screen.rows[0].split("stream ended")[0]
        assert screen.rows[-1].strip() == why
        await screen.press("escape")
        assert "quit" in screen.rows[-1]


async def test_a_silent_probe_shows_within_two_seconds() -> None:
    now = [0.0]
    async with running(clock=lambda: now[0]) as screen:
        assert "silent" not in screen.text
        now[0] = 1.5
        await screen.frame()
        assert "probe silent for 1.5 s" in screen.rows[1]


DIED = Event(60.5, "probe_restarted", "the measuring process died (by SIGKILL), with a hole of at least 1.3 s.")


async def test_a_probe_that_died_is_told_on_the_last_line_and_below_the_picture() -> None:
    async with running() as screen:
        await screen.feed_more(DIED, Tick(60.75))
        assert DIED.says in screen.rows[-1]
        await screen.press("full_stop", "escape")  # draws the text below anew
        assert f"event     at 14:03:20: {DIED.says}" in screen.text


async def test_of_a_recording_such_a_death_is_no_news() -> None:
    async with running(lines=[*LINES, DIED, Tick(60.75)], live=False, ends="end") as screen:
        assert "died" not in screen.rows[-1]


async def test_a_frame_without_news_sends_nothing() -> None:
    async with running() as screen:
        await screen.frame()
        dirty: list[object] = []
        screen.app.screen._compositor.update_widgets = dirty.append  # type: ignore[method-assign, assignment]
        await screen.frame()
        assert dirty == []


def test_work_on_a_long_backlog_is_cut_into_portions() -> None:
    clock = iter(range(1_000_000))
    session = Session(CannedFeed(LINES), classify, CannedAnalysis, lambda: next(clock) / 20)
    assert session.pump(0.12)
    assert 0 < session.lines < len(LINES)
    while session.pump(0.12):
        pass
    assert session.lines == len(LINES)


async def test_the_analysis_sees_every_line_in_order() -> None:
    seen: list[Line] = []

    class Watching(CannedAnalysis):
        def apply(self, line: Line) -> Any:
            seen.append(line)
            return super().apply(line)

    app = GaptopApp(CannedFeed(LINES), classify, ScreenOptions(ascii=False, fps=0.01), Watching, lambda: 0.0)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert seen == LINES
        assert isinstance(app._session.timeline, Timeline)


def _wheel(x: int) -> Any:
    from gaptop.tui.messages import WheelTurned

    return WheelTurned(x, 1)
