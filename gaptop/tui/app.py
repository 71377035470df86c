"""The application: composes session and screens, and turns keys into calls."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Final

from textual.app import App
from textual.driver import Driver

from gaptop.timeline.timeline import Timeline
from gaptop.tui import figures, terminal
from gaptop.tui.feed import Feed, ScreenOptions
from gaptop.tui.glyphs import glyphs
from gaptop.tui.keys import BINDINGS
from gaptop.tui.panels import header
from gaptop.tui.panels.devices import device_facts
from gaptop.tui.screens.help import Help
from gaptop.tui.screens.main import Dashboard
from gaptop.tui.session import Analysis, Classify, Session
from gaptop.valleys.analyst import Analyst

_FIRST_FRAME: Final = 0.1
_WORK: Final = 0.12
"""Seconds of work on waiting lines before the first frame, and between two frames."""
_PAUSE: Final = 0.01
_PAN: Final = 8
"""A pan is this part of the screen."""


class GaptopApp(App[None]):
    """``feed`` gives the lines, ``classify`` turns a stack into an activity. Whoever made the feed closes it."""

    CSS_PATH = "gaptop.tcss"
    BINDINGS = BINDINGS
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        feed: Feed,
        classify: Classify | None,
        options: ScreenOptions,
        analyse: Callable[[Timeline], Analysis] = Analyst,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._written = 0
        super().__init__(ansi_color=True)
        self.title = options.title
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.scroll_sensitivity_y = 1.0
        self._options = options
        self._glyphs = glyphs(terminal.needs_ascii(os.environ) if options.ascii is None else options.ascii)
        self._session = Session(feed, classify, analyse, clock)
        self._main = Dashboard(self._session, options, self._glyphs)
        self._clock = clock
        self._started = clock()
        self._cpu = (self._started, time.process_time())
        self._saving = False
        self._watched = False
        self._catching_up = False
        self._told_end = False

    def get_driver_class(self) -> type[Driver]:
        return terminal.counting(super().get_driver_class(), self._count)

    def on_mount(self) -> None:
        self.push_screen(self._main)
        self._watched = not self.is_headless and not terminal.is_lost()
        if not self.is_headless:
            self._handle_signals()
        self._session.pump(_FIRST_FRAME)
        self.set_interval(1 / self._options.fps, self._tick, name="frames")

    def _tick(self) -> None:
        """A frame: apply what came, move on, draw."""
        if self._watched and terminal.is_lost():
            self._terminal_lost()
            return
        self._apply()
        self._measure()
        self._main.tick()

    def _apply(self) -> None:
        """Work on waiting lines in portions: keys are served in between, and the next frame comes in time."""
        if not self._saving and self._session.pump(_WORK) and not self._catching_up:
            self._catching_up = True
            self.set_timer(_PAUSE, self._catch_up)
        if not self._told_end and (ended := self._session.ended) is not None:
            self._told_end = True
            if header.clip(ended, self.size.width, self._glyphs.ellipsis) != ended:
                self._main.notify_line(ended)

    def _catch_up(self) -> None:
        self._catching_up = False
        self._apply()

    def _measure(self) -> None:
        wall = self._clock()
        if wall - self._cpu[0] >= 2.0:
            cpu = time.process_time()
            self._main.screen_share = (cpu - self._cpu[1]) / (wall - self._cpu[0])
            self._cpu = (wall, cpu)

    def _count(self, size: int) -> None:
        self._written += size

    def _handle_signals(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._terminal_lost)
        loop.add_signal_handler(signal.SIGTERM, self.exit)

    def _terminal_lost(self) -> None:
        terminal.leave_soon()
        self._session.feed.close()
        self.exit(return_code=129)

    def action_pause(self) -> None:
        self._main.move(lambda position, now: position.toggle_pause(now))

    def action_pan(self, direction: int) -> None:
        self._pan(direction, _PAN)

    def action_page(self, direction: int) -> None:
        self._pan(direction, 1)

    def _pan(self, direction: int, parts: int) -> None:
        columns = direction * max(1, self._main.view.columns // parts)
        self._main.move(lambda position, now: position.pan(columns, now))

    def action_zoom(self, steps: int) -> None:
        self._main.move(lambda position, now: position.zoom(steps, now))

    def action_zoom_reset(self) -> None:
        self._main.move(lambda position, now: position.zoom_reset(now))

    def action_valley(self, step: int) -> None:
        self._main.step_valley(step)

    def action_zoom_to_valley(self) -> None:
        self._main.zoom_to_valley()

    def action_live(self) -> None:
        self._main.move(lambda position, now: position.live(now))

    def action_cursor(self, columns: int) -> None:
        self._main.move(lambda position, now: position.step_cursor(columns))

    def action_lane(self, digit: int) -> None:
        self._main.toggle_lane(digit)

    async def action_back(self) -> None:
        self._main.back()

    async def action_snapshot(self) -> None:
        """Write the snapshot in a thread; no line is drained meanwhile, so the feed's files have one user at a time."""
        if self._saving:
            return
        self._saving = True
        try:
            path = await self._main.save()
        except OSError as error:
            self._main.notify_line(
                f"No snapshot was written: {error.strerror or error}. Free some room or start gaptop "
                "in a folder that can be written, then press s again."
            )
        else:
            # The name first: a long folder is what may be cut at the edge.
            self._main.notify_line(f"Snapshot written: {path.name}   (gaptop open {path})")
        finally:
            self._saving = False

    def action_help(self) -> None:
        if isinstance(self.screen, Help):
            return
        seconds = max(self._clock() - self._started, 0.1)
        probe, screen = self._session.probe_share, self._main.screen_share
        self.push_screen(
            Help(
                self._glyphs,
                (
                    ("version", f"gaptop {self._options.version}"),
                    ("log", self._options.log_path or "none"),
                    ("probe", "not reported yet" if probe is None else f"{figures.ratio(probe)} of a core"),
                    ("screen", "not measured yet" if screen is None else f"{figures.ratio(screen)} of a core"),
                    ("terminal", f"{figures.number(self._written / seconds)} bytes/s written on average"),
                ),
                device_facts(self._main.scene()),
            )
        )
