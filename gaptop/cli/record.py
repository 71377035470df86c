"""``gaptop record``: the probe's stream into a file, or onto standard output for another gaptop."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import click

from gaptop.cli.durations import Duration, Size
from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName
from gaptop.cli.target import Target, choose, probe_config, target_options


@click.command(short_help="Record what gaptop measures into a file.")
@target_options
@click.option(
    "-o", "--output", type=FileName(), metavar="FILE", help="Where to; - is standard output. Default: a new file here."
)
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="Stop after this time (30s, 5m, 2h).")
@click.option("--max-size", type=Size(), metavar="SIZE", help="Stop when the file has this size (20M, 1GiB).")
@click.pass_context
def record(
    ctx: click.Context,
    *,
    target: Target,
    output: str | None,
    seconds: float | None,
    max_size: int | None,
) -> None:
    """Record what gaptop measures. Open it with gaptop open FILE."""
    from gaptop.cli.paths import new_recording, start_log

    start_log()
    to_stdout = output == "-"
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("-o - writes a stream for another program; pipe it (| gaptop open -) or name a file.")
    config = probe_config(target, choose(target))
    if to_stdout:
        ctx.exit(_copy(config, sys.stdout.fileno(), None, seconds, max_size))
    path = Path(output) if output else new_recording(socket.gethostname())
    ctx.exit(_copy(config, None, path, seconds, max_size))


def _copy(
    config: dict[str, object], descriptor: int | None, path: Path | None, seconds: float | None, max_size: int | None
) -> Exit:
    from gaptop.cli.ending import Ending
    from gaptop.cli.probe_lines import LiveLines
    from gaptop.recording.writer import SizeReached, StreamWriter, WriteError

    try:
        if path is None:
            assert descriptor is not None
            stream = os.fdopen(os.dup(descriptor), "wb", buffering=0)
            writer = StreamWriter(stream, compress=False, max_size=max_size)
        else:
            writer = StreamWriter(path, compress=True, max_size=max_size)
    except WriteError as error:
        raise Stop(str(error), Exit.UNWRITABLE) from None
    if path is not None:
        until = "ctrl+c" if seconds is None else f"{seconds:g} s are over"
        tell(f"recording into {path} until {until}.")
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    code = Exit.FINE
    try:
        with Ending() as ending, LiveLines(config) as lines:
            while not ending.wanted and (left := end - time.monotonic()) > 0:
                raw = lines.take(min(left, 0.25))
                if raw is not None:
                    writer.write(raw)
                elif reason := lines.ended():
                    tell(reason)
                    code = Exit.NOTHING_TO_OBSERVE
                    break
                else:
                    writer.flush()
            for raw in lines.rest():
                writer.write(raw)
            if ending.wanted and seconds is not None:
                code = Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.FINE
    except SizeReached as reached:
        tell(str(reached))
    except WriteError as error:
        raise Stop(str(error), Exit.UNWRITABLE) from None
    try:
        writer.close()
    except BrokenPipeError:
        return Exit.FINE
    except WriteError as error:
        raise Stop(f"the end of {path or 'the stream'} was not written: {error}", Exit.UNWRITABLE) from None
    if path is not None:
        tell(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it with: gaptop open {path}")
    return code
