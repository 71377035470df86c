"""Themes and colours of the application: which there are, and what the terminal can show of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, Literal

from rich.console import Console
from textual.app import App
from textual.command import CommandListItem, SimpleProvider
from textual.filter import LineFilter, Monochrome, NoColor

from gaptop.tui.looks import ANSI_THEMES, System
from gaptop.tui.mortal import MortalApp
from gaptop.tui.screens.find import Find
from gaptop.tui.themes import COLOUR_BLIND, Colourless, ThemeFilter

_CONSOLE: Final[dict[System, Literal["standard", "256", "truecolor"]]] = {
    "none": "standard",
    "16": "standard",
    "256": "256",
    "true": "truecolor",
}


class ThemedApp(MortalApp):
    """``system`` says how many colours the terminal shows. Where those are sixteen or none, a theme's own colours would
    be guessed at, so there are only the themes that leave colours to the terminal."""

    def __init__(self, theme: str, system: System) -> None:
        self._system: Final = system
        self._filter_of: Final[Callable[[str], ThemeFilter]] = cache(self._make_filter)
        self._colourless: Final = Colourless()
        super().__init__(ansi_color=True)
        self.register_theme(COLOUR_BLIND)
        few = system in ("none", "16")
        dark, light = ANSI_THEMES
        self.theme = theme if not few or theme in ANSI_THEMES else dark if self.available_themes[theme].dark else light
        # None: from now on the theme says whether the terminal's own colours are used.
        self.set_reactive(App.ansi_color, None)
        if few:
            for name in set(self.available_themes) - set(ANSI_THEMES):
                self.unregister_theme(name)
        self.no_color = system == "none"
        self.console = Console(
            color_system=_CONSOLE[system],
            file=self.console.file,
            highlight=False,
            emoji=False,
            legacy_windows=False,
            force_terminal=True,
            safe_box=False,
            soft_wrap=False,
            _environ={name: value for name, value in os.environ.items() if name != "NO_COLOR"},
        )

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Our own before Textual's; whether there are colours is not decided by NO_COLOR alone."""
        own = self._filter_of(self.theme)
        filters: list[LineFilter] = [own] if own.enabled else []
        filters += [each for each in super().get_line_filters() if not isinstance(each, (NoColor, Monochrome))]
        return [*filters, self._colourless] if self.no_color else filters

    def choose_theme(self, name: str) -> None:
        self.theme = name

    def action_change_theme(self) -> None:
        """The themes there are, in the command palette."""
        themes: list[CommandListItem] = [(name, partial(self.choose_theme, name)) for name in self.theme_names()]
        source = [SimpleProvider(self.screen, themes)]
        self.push_screen(Find(source, placeholder="Theme"))  # type: ignore[arg-type]  # as Textual itself does

    def theme_names(self) -> list[str]:
        return sorted(self.available_themes)

    def _make_filter(self, name: str) -> ThemeFilter:
        return ThemeFilter(self.available_themes[name], self._system)
