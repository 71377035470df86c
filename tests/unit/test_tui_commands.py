"""The command palette, themes, keys of the user's own and symbols, on the running screen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import pytest
from rich.color import Color
from textual.command import CommandPalette, Hits
from textual.events import Key
from textual.pilot import Pilot
from textual.system_commands import SystemCommandsProvider

from gaptop.cli.in_force import settings
from gaptop.cli.look import Look
from gaptop.tui.app import GaptopApp
from gaptop.tui.commands import Commands
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.keymap import in_force
from gaptop.tui.keys import KEYS
from gaptop.tui.looks import ANSI_THEMES
from gaptop.tui.palette import VERMILLION
from gaptop.tui.screens.help import Help
from gaptop.tui.themes import LIGHT
from tests.screenshots.canned import CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

LINES = list(stream(60.0))


class Screen:
    """A running app and what it shows."""

    def __init__(self, app: GaptopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def segments(self) -> list[Any]:
        return [segment for strip in self.app.screen._compositor.render_strips() for segment in strip]

    @property
    def text(self) -> str:
        return "\n".join("".join(s.text for s in strip) for strip in self.app.screen._compositor.render_strips())

    @property
    def colours(self) -> set[str]:
        styles = [segment.style for segment in self.segments if segment.style is not None]
        found = {color for style in styles for color in (style.color, style.bgcolor) if color is not None}
        return {color.name.upper() for color in found if not color.is_default}

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause(0.05)

    async def frame(self) -> None:
        self.app._tick()
        await self.pilot.pause()

    async def find(self, words: str) -> None:
        """Type into the open palette, and wait for what it finds."""
        await self.press(*(" " if character == "space" else character for character in words))
        await self.pilot.pause(0.5)


@asynccontextmanager
async def running(size: tuple[int, int] = (120, 40), **chosen: Any) -> AsyncIterator[Screen]:
    usual = {"ascii": False, "fps": 0.01, "timezone": UTC, "log_path": "/var/log/g.log"}
    options = ScreenOptions(**{**usual, **chosen})
    app = GaptopApp(CannedFeed(list(LINES)), classify, options, CannedAnalysis, lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = Screen(app, pilot)
        await screen.frame()
        await screen.frame()
        yield screen


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_the_palette_lists_each_command_with_its_keys(key: str) -> None:
    async with running((120, 200)) as screen:
        await screen.press(key)
        await screen.pilot.pause(0.5)
        assert isinstance(screen.app.screen, CommandPalette)
        for one in KEYS:
            if not one.priority and one.id not in ("palette", "back"):
                assert one.tooltip in screen.text, one
        assert "(space p)" in screen.text
        assert "Screenshot" not in screen.text
        assert screen.text.index("Pause") < screen.text.index("Zoom in") < screen.text.index("Quit")
        await screen.press("escape")
        assert not isinstance(screen.app.screen, CommandPalette)
        assert screen.app.is_running


async def test_the_palette_runs_a_command() -> None:
    async with running() as screen:
        await screen.press("colon")
        await screen.find("pause")
        await screen.press("enter")
        await screen.pilot.pause(0.2)
        assert "PAUSED" in screen.text


async def _type_at_once(screen: Screen, *names: str) -> None:
    """As a fast hand or a paste does it: all keys are there before the first is served."""
    for name in names:
        event = Key(name, {"enter": None, "colon": ":", "plus": "+"}.get(name, name))
        event.set_sender(screen.app)
        screen.app.post_message(event)
    await screen.pilot.pause(1.5)


async def test_enter_right_after_typing_runs_what_was_typed_and_not_what_was_listed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slowly(self: Commands, query: str) -> Hits:
        await asyncio.sleep(0.3)
        async for hit in SystemCommandsProvider.search(self, query):
            yield hit

    monkeypatch.setattr(Commands, "search", slowly)
    async with running() as screen:
        await screen.press("colon")
        await screen.pilot.pause(0.5)
        await _type_at_once(screen, *"help", "enter")
        await screen.pilot.pause(1.0)
        assert isinstance(screen.app.screen, Help)
        assert screen.app._main.view.following, "the first row before anything is typed is pause"


async def test_enter_right_after_typing_what_nothing_matches_runs_nothing() -> None:
    async with running() as screen:
        await screen.press("colon")
        await screen.pilot.pause(0.5)
        await _type_at_once(screen, *"xyzzy", "enter")
        assert isinstance(screen.app.screen, CommandPalette)
        assert "No matches found" in screen.text
        assert screen.app._main.view.following
        await screen.press("enter")
        assert isinstance(screen.app.screen, CommandPalette)


async def test_keys_right_after_the_answer_to_a_question_are_for_the_screen() -> None:
    async with running() as screen:
        await screen.press("g")
        await _type_at_once(screen, *"14:02:42", "enter", "v")
        assert "is no time" not in screen.text
        assert "valleys:" in screen.text
        assert not screen.app._main.view.following


async def test_typing_on_takes_an_early_enter_back() -> None:
    async with running() as screen:
        await screen.press("colon")
        await screen.pilot.pause(0.5)
        await _type_at_once(screen, *"pau", "enter", "x")
        assert isinstance(screen.app.screen, CommandPalette)
        assert screen.app._main.view.following


async def test_keys_that_were_typed_before_a_field_had_opened_are_its_own() -> None:
    async with running() as screen:
        await _type_at_once(screen, "colon", *"help", "enter")
        assert isinstance(screen.app.screen, Help)
        await screen.press("escape")
        await _type_at_once(screen, "g", "plus", *"30", "enter")
        assert screen.app._main.scene().cursor == 30.0


async def test_the_palette_goes_to_a_valley() -> None:
    async with running() as screen:
        await screen.press("colon")
        await screen.find("cache")
        assert "Valley   3: K cache pressure" in screen.text
        await screen.press("enter")
        await screen.pilot.pause(0.2)
        assert "selected valley, 3 of 5" in screen.text


async def test_the_palette_changes_the_theme_and_the_causes_change_with_it() -> None:
    async with running() as screen:
        assert VERMILLION in screen.colours
        await screen.press("colon")
        await screen.find("textual-light")
        await screen.press("enter")
        await screen.pilot.pause(0.3)
        assert screen.app.theme == "textual-light"
        assert LIGHT[VERMILLION] in screen.colours
        assert VERMILLION not in screen.colours
        grounds = {s.style.bgcolor for s in screen.segments if s.style is not None}
        assert grounds == {Color.parse("#e0e0e0")}, "no cell keeps the terminal's own background"
        await screen.frame()
        assert LIGHT[VERMILLION] in screen.colours


async def test_the_theme_command_shows_all_themes() -> None:
    async with running() as screen:
        screen.app.action_change_theme()
        await screen.pilot.pause(0.5)
        for name in ("colour-blind", "nord", "ansi-light"):
            assert name in screen.text
        await screen.find("colour-blind")
        await screen.press("enter")
        await screen.pilot.pause(0.2)
        assert screen.app.theme == "colour-blind"


@pytest.mark.parametrize("theme", ["nord", "textual-light", "ansi-light"])
async def test_a_theme_is_there_from_the_first_frame(theme: str) -> None:
    async with running(theme=theme) as screen:
        assert screen.app.theme == theme
        assert (LIGHT[VERMILLION] if "light" in theme else VERMILLION) in screen.colours
        own = {segment.style.bgcolor for segment in screen.segments if segment.style is not None} - {None}
        assert all(color.is_default for color in own) is theme.startswith("ansi")


@pytest.mark.parametrize("system", ["16", "none"])
@pytest.mark.parametrize(("theme", "shown"), [("nord", "ansi-dark"), ("rose-pine-dawn", "ansi-light")])
async def test_few_colours_leave_them_to_the_terminal(system: str, theme: str, shown: str) -> None:
    async with running(theme=theme, colours=system) as screen:
        assert screen.app.theme == shown
        assert set(screen.app.theme_names()) == set(ANSI_THEMES)
        expected = set() if system == "none" else {"RED", "GREEN", "CYAN"}
        assert screen.colours >= expected
        assert not [name for name in screen.colours if name.startswith("#")]
        assert bool(screen.colours) is bool(expected)
        await screen.press("question_mark")
        assert f"{shown}, {'no' if system == 'none' else '16'} colours" in screen.text


async def test_no_color_is_heeded_by_whoever_chose_nothing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(colours="true") as screen:
        assert VERMILLION in screen.colours


async def test_a_key_of_ones_own_works_and_is_shown() -> None:
    keys, _ = in_force({"pause": ("f5",), "help": ("f2",), "next_valley": ("f9",)})
    async with running(keys=keys) as screen:
        assert "f5 pause" in screen.text
        assert "f9/N valley" in screen.text
        await screen.press("space")
        assert "LIVE" in screen.text
        await screen.press("f5")
        assert "PAUSED" in screen.text
        await screen.press("question_mark")
        assert not isinstance(screen.app.screen, Help)
        await screen.press("f2")
        assert isinstance(screen.app.screen, Help)
        assert "  f5               Hold the view" in screen.text
        await screen.press("f2")
        assert not isinstance(screen.app.screen, Help)
        await screen.press("colon")
        await screen.find("pause")
        assert "(f5)" in screen.text


async def test_a_key_that_was_taken_leaves_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, _ = in_force({"snapshot": ("p",)})
    async with running(keys=keys) as screen:
        saved: list[str] = []

        async def snapshot() -> None:
            saved.append("s")

        monkeypatch.setattr(screen.app, "action_snapshot", snapshot)
        await screen.press("p")
        assert saved == ["s"]
        assert "LIVE" in screen.text
        await screen.press("space")
        assert "PAUSED" in screen.text


async def test_ctrl_c_quits_from_the_palette_and_escape_never_does() -> None:
    async with running() as screen:
        await screen.press("colon", "escape", "escape", "escape")
        assert screen.app.is_running
        await screen.press("colon")
        await screen.press("ctrl+c")
        await screen.pilot.pause(0.2)
        assert not screen.app.is_running


async def test_what_is_wrong_with_the_configuration_is_said_at_the_start() -> None:
    async with running(notices=("config.toml:3: thme is no setting.", "another.")) as screen:
        assert "config.toml:3: thme is no setting. (and 1 more, see ?)" in screen.text
        await screen.press("escape", "question_mark")
        assert "another." in screen.text


async def test_lanes_are_folded_and_ordered_as_chosen() -> None:
    async with running(folded=frozenset({2}), order=(6, 3)) as screen:
        rows = [row[:12].strip("▸ ") for row in screen.text.split("\n")]
        labels = [row.split()[0] for row in rows if row]
        assert "power" not in labels
        assert labels.index("KV") < labels.index("queue") < labels.index("busy") < labels.index("decode")
        await screen.press("2")
        assert "\n power " in screen.text


async def test_blocks_without_braille() -> None:
    async with running() as screen:
        assert any("\u2800" < character <= "\u28ff" for character in screen.text)
    async with running(braille=False) as screen:
        assert not any("\u2800" <= character <= "\u28ff" for character in screen.text)
        assert "▔" in screen.text
        assert "█" in screen.text


async def test_ascii_holds_in_the_palette_and_the_help() -> None:
    async with running((80, 24), ascii=True) as screen:
        await screen.press("question_mark")
        assert screen.text.isascii()
        await screen.press("escape", "colon")
        await screen.pilot.pause(0.5)
        assert "Pause" in screen.text
        strange = {character for character in screen.text if not character.isascii()}
        assert strange == set()
        await screen.find("valley")
        assert {character for character in screen.text if not character.isascii()} == set()


async def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLORTERM", raising=False)
    before = dict(os.environ)
    look = Look("nord", "block", "256", True, "auto", settings("/dev/null", {}))
    options = look.screen_options("log", "1")
    async with running(colours=options.colours, theme=options.theme):
        assert dict(os.environ) == before


async def test_without_colours_the_chosen_row_is_reversed() -> None:
    async with running(colours="none") as screen:
        await screen.press("colon")
        await screen.pilot.pause(0.5)
        await screen.press("down")
        marked = [s.text.strip() for s in screen.segments if s.style is not None and s.style.reverse and s.text.strip()]
        assert "Pan back" in marked
        assert "Pause" not in marked
