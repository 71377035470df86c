"""``gaptop web``: the screen in a browser, through textual-serve. Each page is shown by a gaptop of its own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from gaptop.cli.exits import Exit, Stop
from gaptop.cli.look import Look, look_options
from gaptop.cli.own_rules import own_rules
from gaptop.cli.target import Target, choose, probe_config, target_options

PORT: Final = 8123
_FILE: Final = "gaptop.web.file"
_TYPED: Final = "gaptop.web.typed"
_PATHS: Final = ("/", "./", "../")
_EPILOG: Final = f"""\b
From another machine, through a tunnel:
  ssh -t -L {PORT}:127.0.0.1:{PORT} HOST gaptop web
  then open http://127.0.0.1:{PORT} there."""


class _Web(click.Command):
    """Keeps the words that were typed: the gaptop of each page is started with them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = tuple(args)
        return super().parse_args(ctx, args)


def _or_file(command: click.Command) -> click.Command:
    """In place of servers a recording may be named."""
    [addresses] = [parameter for parameter in command.params if parameter.name == "addresses"]
    addresses.metavar = "[FILE | [URL|PID]...]"
    addresses.callback = _keep_file
    return command


def _keep_file(ctx: click.Context, param: click.Parameter, named: tuple[str, ...]) -> tuple[str, ...]:
    """What is no file."""
    if "-" in named:
        raise click.UsageError(
            "gaptop web reads no pipe, for every page reads from the start; write the stream into a file "
            "(gaptop record -o FILE) and name that."
        )
    files = [text for text in named if _is_path(text)]
    if not files:
        return named
    if len(named) > 1:
        raise click.UsageError(f"{files[0]} is a recording, and a recording is shown by itself; name nothing else.")
    ctx.meta[_FILE] = Path(files[0])
    return ()


def _is_path(text: str) -> bool:
    """Whether it names a file, which may be missing, rather than a server."""
    return "://" not in text and (text.startswith(_PATHS) or text.endswith(".gaptop") or os.path.lexists(text))


@_or_file
@click.command(cls=_Web, short_help="Show the screen in a browser.", epilog=_EPILOG)
@target_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="N",
    help="Where the page is on 127.0.0.1; 0 takes any free port.",
)
@click.option("--page", is_flag=True, hidden=True)
@own_rules
@look_options
@click.pass_context
def web(ctx: click.Context, *, target: Target, port: int, page: bool, look: Look) -> None:
    """Show the screen of a server or of a recording in a browser of this machine, until ctrl+c.

    No other machine can reach the page, but every user of this one can. Each page that is open measures for itself, and
    ends with its tab. What the keys s, S, x and y write goes into the folder that gaptop web was started in, on this
    machine. Needs the extra: pip install 'gaptop[web]'.
    """
    from gaptop.cli.paths import start_log

    start_log()
    file: Path | None = ctx.meta.get(_FILE)
    if file is not None:
        _refuse_options_of_servers(ctx, file)
    if file is not None:
        _check(file)
        shown = file.name
    else:
        servers = choose(target)
        shown = " ".join(server.url for server in servers)
    if not page and importlib.util.find_spec("textual_serve") is None:
        raise Stop(
            "the screen in a browser is made by textual-serve, which is not installed here; "
            "pip install 'gaptop[web]' brings it (in gaptop's folder: pip install '.[web]'); or watch in the terminal.",
            Exit.USAGE,
        )
    if not page:
        from gaptop.cli.web_server import serve

        ctx.exit(serve(ctx.meta[_TYPED], f"gaptop {shown}", port))
    from gaptop.cli.screen import run_live, run_stream

    ctx.exit(run_live(probe_config(target, servers), look) if file is None else run_stream(file, look))


def _refuse_options_of_servers(ctx: click.Context, file: Path) -> None:
    from gaptop.cli.open_file import open_file

    known = {parameter.name for parameter in open_file.params} | {"addresses", "port", "page"}
    for parameter in ctx.command.params:
        typed = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if typed and parameter.name not in known:
            raise click.UsageError(
                f"{parameter.opts[0]} is about a server that is watched, and {file} is a recording; leave it out."
            )


def _check(file: Path) -> None:
    """Raises Stop for a file that is no recording, before anybody opens a page."""
    from gaptop.recording.reader import OpenError, open_stream

    if not file.is_file():
        raise Stop(f"cannot open {file}: there is no such file.", Exit.UNREADABLE)
    try:
        open_stream(file).close()
    except OpenError as error:
        raise Stop(str(error), Exit.UNREADABLE) from None
