"""The settings of the command that runs, and the option that names their file.

Every command's options are made with this, so it loads nothing that only a running command needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from gaptop.cli.exits import tell
from gaptop.cli.file_names import FileName

if TYPE_CHECKING:
    from gaptop.cli.in_force import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NAMED: Final = "gaptop.config"
_SETTINGS: Final = "gaptop.settings"


def in_force(ctx: click.Context | None = None) -> Settings:
    """Those of the running command; read once, and what is wrong is said once."""
    from gaptop.cli.in_force import Settings, settings

    ctx = ctx or click.get_current_context(silent=True)
    if ctx is None:
        return settings()
    if _SETTINGS not in ctx.meta:
        ctx.meta[_SETTINGS] = read = settings(ctx.meta.get(_NAMED))
        for sentence in read.wrong:
            tell(sentence)
    kept = ctx.meta[_SETTINGS]
    assert isinstance(kept, Settings)
    return kept


def counts(options: dict[str, Any], option: str, setting: str | None = None) -> Any:
    """Takes an option out of ``options``: what was typed, else what the setting of that name says."""
    source, value = click.get_current_context().get_parameter_source(option), options.pop(option)
    # Some releases of click take any number of arguments for typed, none included.
    typed = source is ParameterSource.COMMANDLINE and value != ()
    return value if typed else in_force()[setting or option]


def config_option(command: _Command) -> _Command:
    """``--config FILE``, once for each command."""
    known: Iterable[click.Parameter] = getattr(command, "__click_params__", ())
    if any(parameter.name == "config" for parameter in known):
        return command
    return click.option(
        "--config",
        type=FileName(),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_keep,
        help="Your configuration (default: config.toml in your configuration folder; gaptop config tells more).",
    )(command)


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_NAMED] = value
