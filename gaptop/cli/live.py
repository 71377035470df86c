"""The default command: watch servers on the screen, or without one for a while."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from gaptop.cli.durations import Duration
from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.look import Look, look_options
from gaptop.cli.output import FAIL_ON, Causes
from gaptop.cli.own_rules import own_rules, rules
from gaptop.cli.target import Target, choose, probe_config, target_options

if TYPE_CHECKING:
    from gaptop.timeline.timeline import Timeline
    from gaptop.valleys.model import Assessment
    from gaptop_collectors.target import Server

ONCE_SECONDS = 10.0


class _AsTheGroup(click.Context):
    """People call this command without its name, so usage and errors do not show it."""

    @property
    def command_path(self) -> str:
        return self.parent.command_path if self.parent is not None else super().command_path


class _Default(click.Command):
    context_class = _AsTheGroup


@click.command(cls=_Default, hidden=True)
@target_options
@click.option("--once", is_flag=True, help=f"No screen: watch for {ONCE_SECONDS:.0f} s, then print the report.")
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="No screen: watch so long, then report.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON (null: not measured, 0: measured zero).")
@click.option(
    "--stream", is_flag=True, help="One JSON object a line for each valley as it ends, at last those still open."
)
@click.option("--fail-on", type=Causes(), metavar="CAUSE[,...]", help=FAIL_ON)
@own_rules
@look_options
@click.pass_context
def live(
    ctx: click.Context,
    *,
    target: Target,
    once: bool,
    seconds: float | None,
    as_json: bool,
    stream: bool,
    fail_on: tuple[str, ...] | None,
    look: Look,
) -> None:
    """Watch a server, or several. Without URL or PID those of this host are found."""
    from gaptop.cli.paths import start_log

    start_log()
    plain = once or seconds or as_json or stream or not sys.stdout.isatty()
    if plain:
        servers: Sequence[Server] = choose(target)
    else:
        from gaptop.cli.first_minute import servers_or_wait

        servers = servers_or_wait(target, look)
    if not servers:
        ctx.exit(Exit.NOTHING_TO_OBSERVE)
    config = probe_config(target, servers)
    if plain:
        ctx.exit(
            report_live(
                config,
                seconds or (None if stream else ONCE_SECONDS),
                as_json=as_json,
                stream=stream,
                fail_on=fail_on,
                ascii_only=look.ascii,
                asked=bool(once or seconds or as_json or stream),
            )
        )
    from gaptop.cli.screen import run_live

    ctx.exit(run_live(config, look))


def report_live(
    config: dict[str, Any],
    seconds: float | None,
    *,
    as_json: bool,
    stream: bool,
    fail_on: tuple[str, ...] | None,
    ascii_only: bool,
    asked: bool,
) -> Exit:
    """Watch without a screen and print; ``seconds`` None means until interrupted. ``asked``: not only because there is
    no terminal for a screen, which is told then.

    INTERRUPTED when a signal came before the seconds were over: what was seen until then is printed all the same."""
    from gaptop.cli.ending import Ending
    from gaptop.cli.output import exit_code, print_report
    from gaptop.cli.probe_lines import LiveLines
    from gaptop.cli.session import watch
    from gaptop.valleys.report import build

    if sys.stderr.isatty():
        how_long = f"for {seconds:g} s" if seconds else "until interrupted"
        if asked:
            tell(f"watching {how_long} …")
        else:
            tell(f"standard output is no terminal, so there is no screen: watching {how_long}, then the report …")
    each = _streamer() if stream else _silent
    with Ending() as ending, LiveLines(config) as lines:
        timeline, assessment = watch(lines, seconds or float("inf"), rules(), ending, each)
    report = build(timeline, assessment, window=None)
    if timeline.header is None:
        raise Stop("the measuring process said nothing; see the log that gaptop doctor names.", Exit.NOTHING_TO_OBSERVE)
    if not stream:
        print_report(report, as_json=as_json, ascii_only=ascii_only)
    if ending.wanted and seconds is not None:
        return Exit.INTERRUPTED
    return exit_code(report, fail_on)


def _silent(timeline: Timeline, assessment: Assessment) -> None:
    """Nothing is told before the report."""


def _streamer() -> Callable[[Timeline, Assessment], None]:
    from gaptop.valleys.report import valley_json

    told: set[str] = set()

    def print_new(timeline: Timeline, assessment: Assessment) -> None:
        for valley in assessment.valleys:
            if (valley.final or assessment.ended) and valley.id not in told:
                told.add(valley.id)
                click.echo(json.dumps(valley_json(timeline, valley), allow_nan=False))

    return print_new
