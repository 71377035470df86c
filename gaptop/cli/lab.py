"""``gaptop lab``: the simulated server without waiting, its policies side by side, and how right the verdicts are."""

from __future__ import annotations

import importlib
from typing import Final

import click

_COMMANDS: Final = {
    "run": "gaptop.cli.lab_run:run",
    "compare": "gaptop.cli.lab_compare:compare",
    "score": "gaptop.cli.lab_score:score",
}


class _Group(click.Group):
    """Loads a command when it is needed: the lab imports more than ``--help`` may wait for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Group, invoke_without_command=True)
@click.pass_context
def lab(ctx: click.Context) -> None:
    """Simulate a server whose every idle interval has a known cause."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
