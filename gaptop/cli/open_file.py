"""``gaptop open FILE|-``: the screen on a recording, or on a stream that arrives through a pipe."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios
from pathlib import Path

import click

from gaptop.cli.exits import Exit, Stop
from gaptop.cli.file_names import FileName, require_recording
from gaptop.cli.look import Look, look_options
from gaptop.cli.own_rules import own_rules
from gaptop.cli.own_terminal import take_terminal


@click.command(name="open", short_help="Open a recording on the screen.")
@click.argument("file", type=FileName(), metavar="FILE|-")
@own_rules
@look_options
@click.pass_context
def open_file(ctx: click.Context, *, file: str, look: Look) -> None:
    """Open a recording or snapshot on the screen; - reads a stream from a pipe."""
    from gaptop.cli.paths import start_log

    start_log()
    if not sys.stdout.isatty():
        from gaptop.cli.report import print_file

        ctx.exit(print_file(file, as_json=False, fail_on=None, ascii_only=look.ascii))
    from gaptop.cli.screen import load, run_stream

    if file != "-":
        require_recording(file)
        ctx.exit(run_stream(Path(file), look))
    if sys.stdin.isatty():
        raise click.UsageError("open - reads a stream from a pipe: gaptop record -o - | gaptop open -")
    load()
    _wait_for_the_stream()
    pipe = os.dup(0)
    take_terminal()
    ctx.exit(run_stream(pipe, look))


def _wait_for_the_stream() -> None:
    """Until then the terminal belongs to the other side: sudo asks for a password there, errors are told there."""
    select.select([0], [], [])
    try:
        waiting = struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, struct.pack("i", 0)))[0]
    except OSError:
        # No pipe, socket or file, so it cannot be asked; the reader will find out.
        return
    if waiting == 0:
        raise Stop(
            "nothing came through the pipe, so there is nothing to show; what stands before the | has ended: run it "
            "alone to see why.",
            Exit.UNREADABLE,
        )
