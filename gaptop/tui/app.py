"""The application: composes session and screens, and turns keys into calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import Key
from textual.screen import Screen
from textual.widgets import Input

from gaptop.timeline.timeline import Timeline
from gaptop.tui import figures, link, terminal
from gaptop.tui.actions.choosing import Choosing
from gaptop.tui.actions.keeping import Keeping
from gaptop.tui.commands import Commands
from gaptop.tui.feed import Feed, ScreenOptions
from gaptop.tui.glyphs import glyphs
from gaptop.tui.keymap import changed, shown_all
from gaptop.tui.keys import KEYS
from gaptop.tui.looks import System
from gaptop.tui.panels import header
from gaptop.tui.panels.devices import device_facts
from gaptop.tui.screens.find import Find
from gaptop.tui.screens.help import CLOSE_HELP, Help, closing
from gaptop.tui.screens.main import Dashboard
from gaptop.tui.session import Analysis, Classify, Session
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import CAUSE_NAMES, LETTERS

_FIRST_FRAME: Final = 0.1
_WORK: Final = 0.12
"""Seconds of work on waiting lines before the first frame, and between two frames."""
_PAUSE: Final = 0.01
_RECENT: Final = 9
"""Valleys that the command palette lists before anything is typed."""
_SHOWS: Final[dict[System, str]] = {
    "none": "no colours",
    "16": "16 colours",
    "256": "256 colours",
    "true": "all colours",
}
_ZOOM: Final = 3
"""Steps of a key: half the time, or twice. The wheel goes one by one."""
_PAN: Final = 8
"""A pan is this part of the screen."""


class GaptopApp(Choosing, Keeping):
    """``feed`` gives the lines, ``classify`` turns a stack into an activity. Whoever made the feed closes it."""

    CSS_PATH = "gaptop.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.key, key.action, key.description, tooltip=key.tooltip, id=key.id, priority=key.priority)
        for key in KEYS
    ]
    COMMANDS: ClassVar = {Commands}

    def __init__(
        self,
        feed: Feed,
        classify: Classify | None,
        options: ScreenOptions,
        analyse: Callable[[Timeline], Analysis] = Analyst,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._written = terminal.Meter(clock)
        super().__init__(options.theme, options.colours)
        self.title = options.title
        self.set_keymap({**changed(options.keys), CLOSE_HELP: ",".join(closing(options.keys))})
        self.animation_level = "none"
        self.scroll_sensitivity_y = 1.0
        self._options = options
        self._glyphs = glyphs(
            terminal.needs_ascii(os.environ) if options.ascii is None else options.ascii, options.braille
        )
        self.set_class(self._glyphs.ascii, "ascii")
        self._session = Session(feed, classify, analyse, clock)
        self._main = Dashboard(self._session, options, self._glyphs)
        self._clock = clock
        self._started = clock()
        self._cpu = (self._started, time.process_time())
        self._saving = False
        self._catching_up = False
        self._told_end = False

    def get_driver_class(self) -> type[Driver]:
        return terminal.counting(super().get_driver_class(), self._written.count)

    def on_mount(self) -> None:
        self.push_screen(self._main)
        if not self.is_headless:
            self._main.sweep.watch(link.remote(os.environ))
        if notices := self._options.notices:
            more = f" (and {len(notices) - 1} more, see ?)" if len(notices) > 1 else ""
            self._main.notify_line(notices[0] + more)
        self._session.pump(_FIRST_FRAME)
        self.set_interval(1 / self._options.fps, self._tick, name="frames")

    def _tick(self) -> None:
        """A frame: apply what came, move on, draw."""
        self._apply()
        self._measure()
        self._main.tick()

    def _apply(self) -> None:
        """Work on waiting lines in portions: keys are served in between, and the next frame comes in time."""
        if not self._saving and self._session.pump(_WORK) and not self._catching_up:
            self._catching_up = True
            self.set_timer(_PAUSE, self._catch_up)
        if news := self._session.news:
            self._session.news = ""
            self._main.notify_line(news)
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

    def terminal_lost(self) -> None:
        super().terminal_lost()
        self._session.feed.close()

    def on_key(self, event: Key) -> None:
        """Keys that were typed before a field had opened are its own: nobody else took them."""
        field = self.screen.query(Input)
        if field and event.character is not None and event.is_printable:
            field.first().insert_text_at_cursor(event.character)

    async def action_command_palette(self) -> None:  # type: ignore[override]
        """Textual waits for what an action waits for: keys that come meanwhile find the palette open."""
        if not isinstance(self.screen, Find):
            await self.push_screen(Find(placeholder="A command, a theme, a valley"))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette finds: every key's command, the themes, the valleys."""
        for key in KEYS:
            if not key.priority and key.id not in ("palette", "back"):
                says = f"{key.tooltip} ({shown_all(self._options.keys[key.id], self._glyphs.ascii)})"
                title = key.description[0].upper() + key.description[1:]
                yield SystemCommand(title, says, partial(self.run_action, f"app.{key.action}"))
        yield SystemCommand("Theme", "Choose the colours of the screen", self.action_change_theme)
        for name in self.theme_names():
            yield SystemCommand(f"Theme {name}", "", partial(self.choose_theme, name), discover=False)
        scene, valleys = self._main.scene(), self._session.assessment.valleys
        for place, valley in enumerate(valleys, 1):
            title = f"Valley {place:3}: {LETTERS[valley.verdict.cause]} {CAUSE_NAMES[valley.verdict.cause]}"
            length = (scene.now if valley.end_s is None else valley.end_s) - valley.start_s
            says = f"Select it: {scene.clock(valley.start_s)}, {figures.seconds(length)} long"
            run = partial(self._main.pick, valley.id)
            yield SystemCommand(title, says, run, discover=place > len(valleys) - _RECENT)

    def choose_theme(self, name: str) -> None:
        """It lasts until the screen ends; what would keep it is told, and left to the user."""
        super().choose_theme(name)
        if name != self._options.theme and self._options.theme_kept:
            self._main.notify_line(f"{self._options.theme_kept.format(name)} keeps this theme for the next time.")

    def action_pause(self) -> None:
        if self._session.feed.live:
            self._main.move(lambda position, now: position.toggle_pause(now))
        else:
            self._main.move(lambda position, now: position.toggle_play(now))

    def action_step_head(self, steps: int) -> None:
        self._main.move(lambda position, now: position.step_head(steps, now))

    def action_faster(self, steps: int) -> None:
        """Of a recording that plays, or will."""
        self._main.move(lambda position, now: position.faster(steps))
        if not self._session.feed.live:
            self._main.answer_line(f"Plays {self._main.speed:g} times as fast as it was recorded.")

    def action_pan(self, direction: int) -> None:
        self._pan(direction, _PAN)

    def action_page(self, direction: int) -> None:
        self._pan(direction, 1)

    def _pan(self, direction: int, parts: int) -> None:
        columns = direction * max(1, self._main.view.columns // parts)
        self._main.move(lambda position, now: position.pan(columns, now))

    def action_zoom(self, steps: int) -> None:
        self._main.move(lambda position, now: position.zoom(steps * _ZOOM, now))

    def action_zoom_reset(self) -> None:
        self._main.zoom_reset()

    def action_valley(self, step: int) -> None:
        self._main.step_valley(step)

    def action_zoom_to_valley(self) -> None:
        self._main.zoom_to_valley()

    def action_live(self) -> None:
        self._main.move(lambda position, now: position.live(now))

    async def action_sweep(self) -> None:
        await self._main.toggle_sweep()

    def action_cursor(self, columns: int) -> None:
        self._main.move(lambda position, now: position.step_cursor(columns))

    def action_lane(self, digit: int) -> None:
        self._main.toggle_lane(digit)

    async def action_back(self) -> None:
        self._main.back()

    def action_help(self) -> None:
        if isinstance(self.screen, Help):
            return
        probe, screen = self._session.probe_share, self._main.screen_share
        self.push_screen(
            Help(
                self._glyphs,
                self._options.keys,
                (
                    ("version", f"gaptop {self._options.version}"),
                    ("log", self._options.log_path or "none"),
                    *((("config", self._options.config_path),) if self._options.config_path else ()),
                    *(("config", notice) for notice in self._options.notices),
                    ("theme", f"{self.theme}, {_SHOWS[self._options.colours]}"),
                    ("probe", "not reported yet" if probe is None else f"{figures.ratio(probe)} of a core"),
                    ("screen", "not measured yet" if screen is None else f"{figures.ratio(screen)} of a core"),
                    ("terminal", f"{self._written.says()}, {'swept' if self._main.scene().sweeping else 'rolling'}"),
                ),
                device_facts(self._main.scene()),
            )
        )
