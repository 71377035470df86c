"""A swept picture on the screen: what stands still, what ends it, and what it costs in bytes."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC
from typing import Final

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from gaptop.recording.lines import Batch, Line, Tick
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.link import Link
from gaptop.tui.messages import WheelTurned
from gaptop.tui.sweep import GAP
from gaptop.tui.unhurried import Unhurried
from tests.screenshots.canned import LENGTH, CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

LINES: Final = list(stream())
WARM: Final = 30.0


class Screen:
    """A running app whose feed is given by the tick."""

    def __init__(self, app: GaptopApp, pilot: Pilot[None], feed: CannedFeed, lines: Sequence[Line]) -> None:
        self.app = app
        self.pilot = pilot
        self._feed = feed
        self._rest = iter(lines)

    @property
    def rows(self) -> list[str]:
        return ["".join(segment.text for segment in strip) for strip in self.app.screen._compositor.render_strips()]

    @property
    def cells(self) -> list[str]:
        """The picture's rows between the gutter and the values, without the axis."""
        widths = self.app._main._widths
        first = next(y for y, row in enumerate(self.rows) if "┤" in row)
        last = next(y for y, row in enumerate(self.rows) if row.startswith(" valleys"))
        return [row[widths.gutter : widths.gutter + widths.cells] for row in self.rows[first : last + 1]]

    @property
    def axis(self) -> str:
        return next(row for row in self.rows if "└" in row)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, t: float) -> int:
        """Go on to that second of the stream, a frame each tick; the number of frames."""
        frames = 0
        for line in self._rest:
            self._feed.add(line)
            if isinstance(line, Tick):
                self.app._tick()
                await self.pilot.pause(0)
                frames += 1
                if line.t >= t:
                    break
        return frames


class SlowLink(Link):
    """Never keeps up."""

    def is_slow(self, now: float) -> bool:
        return True


class CountingDriver(HeadlessDriver):
    """Is drawn on as a terminal is."""

    written = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        CountingDriver.written += len(data.encode())


@asynccontextmanager
async def running(
    sweep: str = "on", lines: Sequence[Line] = LINES, size: tuple[int, int] = (120, 40), written: bool = False
) -> AsyncIterator[Screen]:
    """Live, with the first half a minute read."""
    before = [line for line in lines if not isinstance(line, Tick) or line.t <= WARM]
    cut = before.index(next(line for line in reversed(before) if isinstance(line, Tick))) + 1
    feed = CannedFeed(lines[: list(lines).index(before[cut - 1]) + 1])
    options = ScreenOptions(ascii=False, fps=0.01, timezone=UTC, sweep=sweep)
    app = GaptopApp(feed, classify, options, CannedAnalysis, lambda: 0.0)
    app._main._aside = Unhurried(lambda: app._session.now)
    if written:
        app.driver_class = CountingDriver
    async with app.run_test(size=size, headless=not written) as pilot:
        await pilot.pause()
        screen = Screen(app, pilot, feed, lines[list(lines).index(before[cut - 1]) + 1 :])
        for _ in range(3):
            app._tick()
            await pilot.pause()
        yield screen


async def test_only_what_is_at_the_beam_changes() -> None:
    async with running() as screen:
        await screen.until(40.25)
        before, view = screen.cells, screen.app._main.view
        await screen.until(46.25)
        after, moved = screen.cells, screen.app._main.view.right - view.right
        assert moved == 10
        places = [x for x in range(view.columns) if any(a[x] != b[x] for a, b in zip(before, after, strict=True))]
        beam = view.right % view.columns + 1
        pending = 12
        assert places, "it moved"
        assert set(places) <= {x % view.columns for x in range(beam - pending, beam + moved + GAP)}


async def test_now_is_named_where_the_beam_is() -> None:
    async with running() as screen:
        await screen.until(42.0)
        main = screen.app._main
        beam = main._widths.gutter + main.view.right % main.view.columns + 1
        assert screen.axis[beam : beam + GAP] == "│now"
        assert " now 14:03:02" in screen.axis
        assert {row[beam - main._widths.gutter : beam - main._widths.gutter + GAP] for row in screen.cells} == {"│   "}
        assert "LIVE sweep" in screen.rows[0]


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (61, 20)])
async def test_no_clock_time_is_torn_at_the_edge_or_by_the_beam(size: tuple[int, int]) -> None:
    async with running(size=size) as screen:
        widths = screen.app._main._widths
        for second in range(31, 64):
            await screen.until(float(second))
            axis = screen.axis[widths.gutter : widths.gutter + widths.cells]
            for word in axis.replace("┬", "─").replace("│now", "─").replace("│", "─").split("─"):
                assert word == "" or (len(word) == 8 and word[2] == word[5] == ":"), axis


@pytest.mark.parametrize("keys", [("space",), ("left",), ("comma",), ("N",), ("r",)])
async def test_looking_back_shows_the_picture_from_left_to_right(keys: tuple[str, ...]) -> None:
    async with running() as screen:
        await screen.until(41.0)
        swept = screen.cells
        await screen.press(*keys)
        assert "sweep" not in screen.rows[0]
        assert "PAUSED" in screen.rows[0]
        assert "now" not in screen.axis
        await screen.press("end")
        assert screen.cells == swept
        assert "LIVE sweep" in screen.rows[0]


async def test_w_sweeps_and_rolls_and_says_how_to_go_back() -> None:
    async with running("off") as screen:
        rolling = screen.cells
        await screen.press("w")
        assert "LIVE sweep" in screen.rows[0]
        assert "w rolls it again" in screen.rows[-1]
        assert screen.cells != rolling
        await screen.press("w")
        assert screen.cells == rolling
        assert "The picture rolls" in screen.rows[-1]
        await screen.press("space", "w")
        assert "LIVE sweep" in screen.rows[0]


async def test_a_slow_link_is_told_and_swept() -> None:
    async with running("auto") as screen:
        assert "sweep" not in screen.rows[0]
        screen.app._main.sweep.watch(SlowLink(lambda: 900))
        await screen.until(30.5)
        await screen.pilot.pause()
        assert "LIVE sweep" in screen.rows[0]
        assert "This link is slow" in screen.rows[-1]


async def test_a_click_selects_what_stands_there() -> None:
    async with running() as screen:
        await screen.until(50.0)
        main = screen.app._main
        row = next(y for y, text in enumerate(screen.rows) if text.startswith(" valleys"))
        place = main._position.places.place(main.view.column_at(35.0)) if main._position else None
        assert place is not None
        x = main._widths.gutter + place
        assert screen.rows[row][x] == "═", "the valley of the full cache"
        await screen.pilot.click(offset=(x, row))
        await screen.pilot.pause()
        assert "selected valley" in "\n".join(screen.rows)
        assert "CACHE PRESSURE" in "\n".join(screen.rows)
        assert screen.rows[row][x] == "═", "what is under the pointer stays there"
        assert main._position is not None
        assert main._position.cursor is not None
        assert 34.5 <= main._position.cursor <= 35.5


async def test_the_wheel_zooms_at_the_pointer() -> None:
    async with running() as screen:
        await screen.until(50.0)
        main = screen.app._main
        assert main._position is not None
        t = main.view.time_at(main._position.places.column(20))
        main.on_wheel_turned(WheelTurned(main._widths.gutter + 20, 1))
        assert not main.view.following
        assert main.view.column_at(t) - main.view.first == 20


async def test_a_sentence_in_a_lane_is_not_swept() -> None:
    lines = [line for line in LINES if not isinstance(line, Batch) or "sched.running" not in line.values]
    async with running(lines=lines) as screen:
        assert any("No server has answered yet." in row for row in screen.rows)
        await screen.until(35.0)
        assert any("No server has answered yet." in row for row in screen.rows)


async def test_the_end_of_the_stream_ends_the_sweep() -> None:
    async with running() as screen:
        screen.app._session.feed._ends = "the probe has ended"  # type: ignore[attr-defined]
        screen.app._tick()
        await screen.pilot.pause()
        assert "now" not in screen.axis
        await screen.press("w")
        assert "only a live picture is swept" in screen.rows[-1]


def restless(lines: Sequence[Line]) -> Iterator[Line]:
    """The same with readings that jump all the time."""
    noise = random.Random(3)
    for line in lines:
        if isinstance(line, Batch):
            jumping = {
                name: [None if value is None else value * noise.uniform(0.2, 1.0) for value in values]
                if not name.startswith("tokens")
                else values
                for name, values in line.values.items()
            }
            yield replace(line, values=jumping)
        else:
            yield line


async def bytes_a_second(sweep: str, lines: Sequence[Line]) -> float:
    """Bytes for each second of the stream, at four frames a second."""
    async with running(sweep, lines, written=True) as screen:
        await screen.until(WARM + 2.0)
        before = CountingDriver.written
        frames = await screen.until(WARM + 27.0)
        assert frames == 100
        return (CountingDriver.written - before) / 25.0


@pytest.mark.parametrize("kind", ["canned", "restless"])
async def test_bytes_to_the_terminal(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = LINES if kind == "canned" else list(restless(LINES))
    assert lines[-1] == LINES[-1] == Tick(LENGTH)
    rolling, swept = await bytes_a_second("off", lines), await bytes_a_second("on", lines)
    with capsys.disabled():
        print(f"\n{kind}: {rolling / 1000:.1f} KB/s rolling, {swept / 1000:.1f} KB/s swept")
    assert 500 < swept < 6_000
    assert swept < rolling < 24_000
