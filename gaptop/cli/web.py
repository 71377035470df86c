"""``gaptop web``: the screen in a browser, through textual-serve. Each page is shown by a gaptop of its own."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import require_recording
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
  then open there the address that it prints."""


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

    No other machine can reach the page, and of this one only who knows the address that is printed: it holds a secret,
    new each time. Without a server the page waits for one. Each page that is open measures for itself, and ends with
    its tab. What the keys s, S, x and y write goes into the folder that gaptop web was started in, on this
    machine. Needs the extra: pip install 'gaptop[web]'.
    """
    from gaptop.cli.paths import start_log

    start_log()
    file: Path | None = ctx.meta.get(_FILE)
    if file is not None:
        _refuse_options_of_servers(ctx, file)
        _check(file)
    if not page and importlib.util.find_spec("textual_serve") is None:
        raise Stop(
            "the screen in a browser is made by textual-serve, which is not installed here; "
            f"{sys.executable} -m pip install 'gaptop[web]' brings it (in gaptop's folder: '.[web]'); or watch in the "
            "terminal.",
            Exit.USAGE,
        )
    if not page:
        from gaptop.cli.web_server import serve

        ctx.exit(serve(ctx.meta[_TYPED], f"gaptop {_servers_shown(target) if file is None else file.name}", port))
    from gaptop.cli.screen import run_live, run_stream

    if file is not None:
        ctx.exit(run_stream(file, look))
    from gaptop.cli.first_minute import servers_or_wait

    servers = servers_or_wait(target, look)
    ctx.exit(run_live(probe_config(target, servers), look) if servers else Exit.NOTHING_TO_OBSERVE)


def _servers_shown(target: Target) -> str:
    """What the pages will show. Where no server is there yet that is told, and they wait. Raises Stop for what waiting
    cannot mend."""
    try:
        return " ".join(server.url for server in choose(target))
    except Stop as stop:
        if stop.exit_code != Exit.NOTHING_TO_OBSERVE:
            raise
        stop.show()
        tell("the page waits: it looks again every two seconds, and goes on as soon as a server answers.")
        return " ".join(target.addresses) or "this host"


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

    require_recording(file)
    try:
        open_stream(file).close()
    except OpenError as error:
        raise Stop(str(error), Exit.UNREADABLE) from None
