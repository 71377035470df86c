"""``gaptop lab compare``: scheduling policies on the same simulated arrivals."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from gaptop.cli.durations import Duration, Number
from gaptop.cli.exits import Exit, Stop

if TYPE_CHECKING:
    from gaptop.lab.compare import Kind, Policy, Row
    from gaptop.lab.core.loads import Load
    from gaptop.lab.core.model import DeviceModel

POLICIES: Final = ("static", "continuous", "chunked", "disaggregated")
OPEN: Final = ("steady", "poisson", "bursts")
MOST: Final = 8192
"""Tokens: no longer request fits the simulated server."""


class _Policies(click.ParamType["tuple[Policy, ...]"]):
    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Policy, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",") if name.strip()))
        for name in names:
            if name not in POLICIES:
                self.fail(f"{name!r} is no policy; choose from {', '.join(POLICIES)}.", param, ctx)
        if not names:
            self.fail(f"name at least one of {', '.join(POLICIES)}.", param, ctx)
        return names  # type: ignore[return-value]  # each was looked up


class _Lengths(click.ParamType[tuple[int, int]]):
    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(value).strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= MOST:
            self.fail(f"{value!r} is no range of tokens; write for example 60-200, at most {MOST}.", param, ctx)
        return low, high


class _Arrivals(click.ParamType[str]):
    name = "arrivals"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        clients = re.fullmatch(r"closed:(\d{1,6})", text)
        if text in OPEN or (clients and int(clients[1])) or Path(text).is_file():
            return text
        self.fail(
            f"{text!r} is none of {', '.join(OPEN)}, closed:N (N clients), nor a CSV file that is there.", param, ctx
        )


@click.command(short_help="Scheduling policies side by side, on the same arrivals.")
@click.option("--policies", type=_Policies(), default=",".join(POLICIES), show_default=True, help="Which, by commas.")
@click.option(
    "--arrivals",
    type=_Arrivals(),
    default="closed:32",
    show_default=True,
    metavar="steady|poisson|bursts|closed:N|FILE.csv",
    help="Who asks, and when. A file has a request a line: seconds,prompt tokens,output tokens.",
)
@click.option(
    "--rate",
    type=Number(0.01, 1000),
    default=2.0,
    show_default=True,
    help="Requests a second of steady, poisson and bursts.",
)
@click.option("--prompt", type=_Lengths(), metavar="MIN-MAX", help="Tokens of a prompt, instead of a mix.")
@click.option("--output", type=_Lengths(), metavar="MIN-MAX", help="Tokens of an answer, instead of a mix.")
@click.option(
    "--hardware", type=click.Choice(["4090", "h100", "a10"]), default="4090", show_default=True, help="A preset."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of everything that is random.")
@click.option("--seconds", type=Duration(), default="60s", show_default=True, metavar="TIME", help="Simulated time.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; times in seconds.")
@click.pass_context
def compare(
    ctx: click.Context,
    *,
    policies: tuple[Policy, ...],
    arrivals: str,
    rate: float,
    prompt: tuple[int, int] | None,
    output: tuple[int, int] | None,
    hardware: str,
    seed: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Run scheduling policies on the same simulated arrivals. Nothing is measured but the simulation."""
    _refuse_what_is_not_used(ctx, arrivals, prompt or output)
    from gaptop.lab.compare import compare as run
    from gaptop.lab.core.model import HARDWARE
    from gaptop.lab.core.scheduler import NeverFits

    try:
        loads = _loads(arrivals, rate, seconds, prompt, output, HARDWARE[hardware])
        rows = run(policies, loads, HARDWARE[hardware], seed, seconds)
    except NeverFits as error:
        raise Stop(f"{error}, so there is nothing to compare; ask for fewer tokens.", Exit.USAGE) from None
    click.echo(json.dumps([asdict(row) for row in rows], indent=2) if as_json else "\n".join(_table(rows)))


def _refuse_what_is_not_used(ctx: click.Context, arrivals: str, lengths: object) -> None:
    """An option that would change nothing is a misunderstanding."""
    if arrivals in OPEN:
        return
    if ctx.get_parameter_source("rate") is ParameterSource.COMMANDLINE:
        closed = "closed clients ask again as soon as they are answered"
        why = closed if arrivals.startswith("closed:") else "the file says when each request comes"
        raise click.UsageError(f"--rate is for {', '.join(OPEN)}: {why}; leave it out or choose one of those.", ctx)
    if lengths and not arrivals.startswith("closed:"):
        raise click.UsageError("--prompt and --output are not for a file: it has each request's lengths.", ctx)


def _loads(
    arrivals: str,
    rate: float,
    seconds: float,
    prompt: tuple[int, int] | None,
    output: tuple[int, int] | None,
    device: DeviceModel,
) -> tuple[Load, ...]:
    from gaptop.lab.compare import MIX, Kind, loads_of, room_on
    from gaptop.lab.trace import TraceError

    mix: tuple[Kind, ...] = MIX
    if prompt or output:
        mix = (Kind(1.0, prompt or MIX[0].prompt, output or MIX[0].output),)
    try:
        return loads_of(arrivals, rate, seconds, mix, room_on(device))
    except TraceError as error:
        raise Stop(str(error), Exit.UNREADABLE) from None


HEAD: Final = ("policy", "GPUs", "tok/s", "TTFT p50", "p99", "ITL p50", "p99", "busy", "idle by true cause")


def _table(rows: list[Row]) -> list[str]:
    from gaptop.valleys.model import CAUSE_NAMES

    cells = [HEAD]
    for row in rows:
        idle = [f"{share:.1%} {CAUSE_NAMES[cause]}" for cause, share in row.idle.items() if share >= 0.0005]
        cells.append(
            (
                row.policy,
                str(row.devices),
                f"{row.throughput:.0f}",
                _seconds(row.ttft_p50),
                _seconds(row.ttft_p99),
                _seconds(row.itl_p50),
                _seconds(row.itl_p99),
                f"{row.busy:.1%}",
                ", ".join(idle) or "none",
            )
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    return [*(_line(line, widths) for line in cells), *_factor(rows)]


def _factor(rows: list[Row]) -> list[str]:
    """What joining and leaving a running batch is worth here."""
    found = {row.policy: row.throughput for row in rows}
    if not found.get("static") or "continuous" not in found:
        return []
    return [f"continuous gives {found['continuous'] / found['static']:.1f} times the tokens of static"]


def _line(line: tuple[str, ...], widths: list[int]) -> str:
    middle = (cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True))
    return "  ".join((line[0].ljust(widths[0]), *middle, line[-1]))


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
