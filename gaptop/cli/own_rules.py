"""``--activities FILE``: the user's own rules for what a stack does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from gaptop.cli.paths import activities_file

_Command = TypeVar("_Command", bound=Callable[..., Any])
_KEY: Final = "gaptop.activities"


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_KEY] = Path(value)


def own_rules(command: _Command) -> _Command:
    """The option; what it names is kept with the context, for :func:`rules_file`."""
    return click.option(
        "--activities",
        metavar="FILE",
        envvar="GAPTOP_ACTIVITIES",
        expose_value=False,
        callback=_keep,
        help="Your own rules for what a stack does, before gaptop's (default: activities.toml in your configuration "
        "folder).",
    )(command)


def rules_file() -> Path | None:
    """The file that this command was given, else the one in the user's configuration folder; None without either."""
    ctx = click.get_current_context(silent=True)
    given = ctx.meta.get(_KEY) if ctx is not None else None
    return given if isinstance(given, Path) else activities_file()
