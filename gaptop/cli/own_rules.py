"""``--activities FILE``: the user's own rules for what a stack does.

A file that was named is used or refused: whoever names one wants its words in the result. One that only lies in the
configuration folder must not keep anybody from watching: it is left out, and that is said on standard error, on the
screen and in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName
from gaptop.cli.of_command import config_option, in_force

if TYPE_CHECKING:
    from gaptop.recording.lines import Health

_Command = TypeVar("_Command", bound=Callable[..., Any])
Classify = Callable[[Sequence[tuple[str, str, int]]], str]
_KEY: Final = "gaptop.activities"
_WITHOUT: Final = "Until then only gaptop's own rules name what threads do."


@dataclass(frozen=True, slots=True)
class Rules:
    """``classify`` names what a stack does; ``notice`` is for whoever sees only the stream: why the user's own rules
    are left out, None where they are not."""

    classify: Classify
    notice: Health | None = None


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if ctx.resilient_parsing:
        return
    if value is None and in_force(ctx).insisted("activities"):
        value = in_force(ctx)["activities"]
    if not value:
        return
    from pathlib import Path

    from gaptop_collectors.host.activities import ActivityFileError, load_activities

    try:
        ctx.meta[_KEY] = load_activities(Path(value)).classify
    except ActivityFileError as error:
        says = f"{error} Without --activities (or GAPTOP_ACTIVITIES) gaptop's own rules stand alone."
        raise Stop(says, Exit.USAGE) from None


def own_rules(command: _Command) -> _Command:
    """The option; what it names is kept with the context, for :func:`rules`. Exit code 2 for a file that cannot be
    used."""
    option = click.option(
        "--activities",
        type=FileName(),
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="Your own rules for what a stack does, before gaptop's (default: activities.toml in your configuration "
        "folder).",
    )
    return option(config_option(command))


def rules() -> Rules:
    """gaptop's rules and before them those that this command was given, else those in the user's configuration folder;
    where the latter cannot be used that is said, and gaptop's stand alone."""
    ctx = click.get_current_context(silent=True)
    given = ctx.meta.get(_KEY) if ctx is not None else None
    if given is not None:
        return Rules(given)
    from pathlib import Path

    from gaptop.cli.paths import activities_file
    from gaptop_collectors.host.activities import ActivityFileError, load_activities

    try:
        own = in_force(ctx)["activities"]
        return Rules(load_activities(Path(own) if own else activities_file()).classify)
    except ActivityFileError as error:
        says = f"{error} {_WITHOUT}"
        tell(says)
        return Rules(load_activities().classify, _notice(says))


def _notice(says: str) -> Health:
    from gaptop.recording.lines import Health

    return Health(0.0, "activities", "activities", "failing", says=says)
