"""``gaptop demo``: the screen (or the report) on a simulated server, plainly labelled as such."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from gaptop.cli.durations import Duration
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.look import Look, look_options
from gaptop.cli.own_rules import own_rules
from gaptop.valleys.model import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gaptop.lab.core.scenario import Scenario
    from gaptop.lab.fast.view import Dialect
    from gaptop.lab.launch import LabInfo

REPORT_SECONDS = 20.0
_INSTEAD = "gaptop lab run {} -o FILE writes it as a recording"


@click.command(short_help="Try gaptop on a simulated server.")
@click.argument("scenario", default="tour")
@click.option("--list", "list_them", is_flag=True, help="List the scenarios.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulated arrivals.")
@click.option(
    "--dialect",
    type=click.Choice(["vllm", "vllm-0.8", "llamacpp"]),
    default="vllm",
    show_default=True,
    help="Whose metrics the simulated server has.",
)
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="No screen: watch so long, then report.")
@click.option("--json", "as_json", is_flag=True, help="No screen: the report as JSON.")
@own_rules
@look_options
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    scenario: str,
    list_them: bool,
    seed: int,
    dialect: Dialect,
    seconds: float | None,
    as_json: bool,
    look: Look,
) -> None:
    """Try gaptop on a simulated LLM server; no GPU is needed and nothing is measured but the simulation."""
    from gaptop.cli.paths import start_log
    from gaptop.lab.scenarios import SCENARIOS

    if list_them:
        _list(SCENARIOS.values())
        return
    if scenario not in SCENARIOS:
        raise click.UsageError(f"no scenario is called {scenario!r}; gaptop demo --list shows those there are.")
    if not SCENARIOS[scenario].live:
        raise click.UsageError(
            f"{scenario} cannot be played in real time, so there is nothing to watch; {_INSTEAD.format(scenario)}."
        )
    from gaptop.lab.launch import Lab, LabError, needs_processes

    if dialect == "llamacpp" and needs_processes(SCENARIOS[scenario]):
        raise click.UsageError(
            f"{scenario} is about the several processes that vLLM has, and llama-server is one, so there is nothing "
            "true to watch; leave --dialect out."
        )
    start_log()
    try:
        with Lab() as lab:
            if seconds or as_json or not sys.stdout.isatty():
                from gaptop.cli.live import report_live

                code = report_live(
                    probe_config_of(lab.start(scenario, seed, dialect=dialect)),
                    seconds or REPORT_SECONDS,
                    as_json=as_json,
                    stream=False,
                    fail_on=None,
                    ascii_only=look.ascii,
                    asked=bool(seconds or as_json),
                )
            else:
                from gaptop.cli.screen import load, run_live

                info = lab.start(scenario, seed, dialect=dialect, meanwhile=load)
                code = run_live(probe_config_of(info), look)
    except LabError as error:
        raise Stop(str(error), Exit.NOTHING_TO_OBSERVE) from None
    ctx.exit(code)


def _list(scenarios: Iterable[Scenario]) -> None:
    """What can be played, by what it deserves to be called; then the names of what cannot."""
    known = list(scenarios)
    width = max(len(entry.name) for entry in known)
    groups: dict[str, list[Scenario]] = {"several causes": []}
    for cause in get_args(Cause):
        groups[cause.replace("_", " ")] = []
    groups["nothing wrong"] = []
    for entry in known:
        if entry.live:
            one = entry.causes[0].replace("_", " ") if entry.causes else "nothing wrong"
            groups["several causes" if len(entry.causes) > 1 else one].append(entry)
    for title, entries in groups.items():
        if entries:
            click.echo(f"{title}:")
            for entry in entries:
                click.echo(f"  {entry.name:<{width}}  {entry.says}")
    others = ", ".join(entry.name for entry in known if not entry.live)
    click.echo(f"not in real time ({_INSTEAD.format('NAME')}):\n  {others}")


def probe_config_of(info: LabInfo) -> dict[str, Any]:
    """The lab is no real server that could be discovered, so the probe is told what it is."""
    from gaptop.cli.target import Target, probe_config
    from gaptop_collectors.target import Server

    server = Server(info.url, info.engine, info.version, info.model, sequence_cap=info.sequence_cap)
    config = probe_config(Target(gpu=False), (server,))
    config["servers"][0]["processes"] = [
        {"pid": process.pid, "role": process.role, "name": process.name} for process in info.processes
    ]
    return {**config, "feeds": [info.feed], "simulated": True}
