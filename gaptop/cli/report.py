"""``gaptop report FILE``: the report of a recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName
from gaptop.cli.look import ascii_option
from gaptop.cli.output import FAIL_ON, Causes
from gaptop.cli.own_rules import own_rules, rules

if TYPE_CHECKING:
    from gaptop.recording.lines import Line
    from gaptop.timeline.timeline import Timeline
    from gaptop.valleys.model import Assessment


@click.command(short_help="Print the report of a recording.")
@click.argument("file", type=FileName(), metavar="FILE|-")
@click.option("--json", "as_json", is_flag=True, help="As JSON (null: not measured, 0: measured zero).")
@click.option("--fail-on", type=Causes(), metavar="CAUSE[,...]", help=FAIL_ON)
@own_rules
@ascii_option
@click.pass_context
def report(ctx: click.Context, *, file: str, as_json: bool, fail_on: tuple[str, ...] | None, ascii_only: bool) -> None:
    """Print the report of a recording or snapshot."""
    ctx.exit(print_file(file, as_json=as_json, fail_on=fail_on, ascii_only=ascii_only))


def print_file(file: str, *, as_json: bool, fail_on: tuple[str, ...] | None, ascii_only: bool) -> Exit:
    """Replay the file through the analysis and print what it says. Raises Stop (exit 4) for an unreadable one."""
    from gaptop.cli.output import exit_code, print_report
    from gaptop.valleys.report import build

    timeline, assessment = replay(sys.stdin.buffer if file == "-" else Path(file))
    window = (timeline.range.start, timeline.range.end) if timeline.range is not None else None
    built = build(timeline, assessment, window=window)
    print_report(built, as_json=as_json, ascii_only=ascii_only)
    return exit_code(built, fail_on)


def replay(source: Path | BinaryIO) -> tuple[Timeline, Assessment]:
    """The whole stream through timeline and analysis. Raises Stop (exit 4) for an unreadable one."""
    from gaptop.recording.lines import Header
    from gaptop.timeline.timeline import Timeline
    from gaptop.valleys.analyst import Analyst

    found = rules()
    timeline = Timeline(found.classify)
    analyst = Analyst(timeline)
    for line in lines_of(source):
        timeline.apply(line)
        if found.notice is not None and isinstance(line, Header):
            timeline.apply(found.notice)
        analyst.apply(line)
    return timeline, analyst.finish()


def lines_of(source: Path | BinaryIO) -> Iterator[Line]:
    """Every line of a stream; says on standard error when it was cut. Raises Stop (exit 4) for an unreadable one."""
    from gaptop.recording.reader import OpenError, open_stream

    try:
        stream = open_stream(source)
        yield from stream
    except OpenError as error:
        raise Stop(str(error), Exit.UNREADABLE) from None
    if stream.says:
        tell(stream.says)
