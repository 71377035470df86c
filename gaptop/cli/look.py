"""How the screen looks: the options of it, and what they and the settings make of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaptop.cli.of_command import config_option, counts, in_force
from gaptop.tui.looks import COLOURS, SWEEPS, SYMBOLS, Colours

if TYPE_CHECKING:
    from gaptop.cli.in_force import Settings
    from gaptop.tui.feed import ScreenOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Look:
    """What was chosen on the command line or elsewhere; ``settings`` has the rest."""

    theme: str
    symbols: str
    colours: Colours
    mouse: bool
    sweep: str
    settings: Settings

    @property
    def ascii(self) -> bool:
        """Whether ASCII was asked for."""
        return self.symbols == "ascii"

    def screen_options(self, log_path: str, version: str) -> ScreenOptions:
        """For the screen; loads what only a screen needs."""
        from gaptop.cli.setting_kinds import LANES
        from gaptop.tui import terminal
        from gaptop.tui.feed import ScreenOptions

        settings = self.settings
        return ScreenOptions(
            ascii=None if self.symbols == "auto" else self.ascii,
            braille=self.symbols != "block",
            colours=terminal.colours(os.environ) if self.colours == "auto" else self.colours,
            theme=terminal.own_theme(os.environ) if self.theme == "auto" else self.theme,
            theme_kept=_theme_kept(settings),
            mouse=self.mouse,
            fps=settings["frames_per_second"],
            timezone=_zone(settings["timezone"]),
            keys=settings.keys,
            folded=frozenset(LANES[name] for name in settings["lanes.fold"]),
            order=tuple(LANES[name] for name in settings["lanes.order"]),
            sweep=self.sweep,
            # Without the folder, which may be long: what is at the edge gets cut.
            notices=tuple(
                sentence.removeprefix(f"{settings.path and settings.path.parent}/") for sentence in settings.wrong
            ),
            config_path=str(settings.path or ""),
            log_path=log_path,
            version=version,
        )


def _theme_kept(settings: Settings) -> str:
    """What keeps a theme that is chosen on the screen; a variable that sets one counts before the file."""
    from gaptop.cli.settings import SETTINGS

    if settings.found["theme"].origin == "environment":
        return f"{SETTINGS['theme'].variable}={{}}"
    path = str(settings.path or "").replace("{", "{{").replace("}", "}}")
    return path and f'theme = "{{}}" in {path}, above its sections,'


def look_options(command: _Command) -> _Command:
    """The options of every command with a screen; the command receives them as one ``look``."""

    def wrapped(*args: Any, **options: Any) -> Any:
        plain = options.pop("ascii_only")
        symbols = counts(options, "symbols")
        look = Look(
            theme=counts(options, "theme"),
            symbols="ascii" if plain else symbols,
            colours=counts(options, "colours"),
            mouse=counts(options, "mouse"),
            sweep=counts(options, "sweep"),
            settings=in_force(),
        )
        return command(*args, look=look, **options)

    functools.update_wrapper(wrapped, command)
    for decorate in reversed(
        [
            click.option("--theme", type=_Word("theme"), metavar="NAME", help="Colours of the screen."),
            click.option("--symbols", type=click.Choice(SYMBOLS), help="What the picture is drawn with."),
            click.option("--ascii", "ascii_only", is_flag=True, help="The same as --symbols ascii."),
            click.option(
                "--colours", "--colors", "colours", type=click.Choice(COLOURS), help="How many the terminal shows."
            ),
            click.option(
                "--sweep",
                type=click.Choice(SWEEPS),
                help="Draw the newest column over a standing picture, which sends least: on, off, or where the link is "
                "slow.",
            ),
            click.option("--mouse/--no-mouse", default=True, help="Use the mouse, or leave it to the terminal."),
        ]
    ):
        wrapped = decorate(wrapped)
    return config_option(wrapped)  # type: ignore[return-value]


def ascii_option(command: _Command) -> _Command:
    """``--ascii`` of a command that only prints; the command receives it, or what ``symbols`` says, as
    ``ascii_only``."""

    def wrapped(*args: Any, **options: Any) -> Any:
        plain = options.pop("ascii_only") or in_force()["symbols"] == "ascii"
        return command(*args, ascii_only=plain, **options)

    functools.update_wrapper(wrapped, command)
    option = click.option("--ascii", "ascii_only", is_flag=True, help="ASCII characters only.")
    return config_option(option(wrapped))  # type: ignore[return-value]


class _Word(click.ParamType[str]):
    """A word that the setting of that name admits; the list of all is too long for a line of help."""

    def __init__(self, setting: str) -> None:
        self.name = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from gaptop.cli.setting_kinds import BadValue
        from gaptop.cli.settings import SETTINGS

        try:
            return str(SETTINGS[self.name].kind.read(value))
        except BadValue as error:
            self.fail(f"{value!r} is none; {error}", param, ctx)


def _zone(name: str) -> tzinfo | None:
    if name == "local":
        return None
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
