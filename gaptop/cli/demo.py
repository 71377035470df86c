"""``gaptop demo``: the screen (or the report) on a simulated server, plainly labelled as such."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gaptop.cli.durations import Duration
from gaptop.cli.exits import Exit, Stop

if TYPE_CHECKING:
    from gaptop.lab.launch import LabInfo

REPORT_SECONDS = 20.0


@click.command(short_help="Try gaptop on a simulated server.")
@click.argument("scenario", default="tour")
@click.option("--list", "list_them", is_flag=True, help="List the scenarios.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulated arrivals.")
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="No screen: watch so long, then report.")
@click.option("--json", "as_json", is_flag=True, help="No screen: the report as JSON.")
@click.option("--ascii", "ascii_only", is_flag=True, envvar="GAPTOP_ASCII", help="Draw with ASCII characters only.")
@click.option("--no-mouse", is_flag=True, envvar="GAPTOP_NO_MOUSE", help="Leave the mouse to the terminal.")
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    scenario: str,
    list_them: bool,
    seed: int,
    seconds: float | None,
    as_json: bool,
    ascii_only: bool,
    no_mouse: bool,
) -> None:
    """Try gaptop on a simulated LLM server; no GPU is needed and nothing is measured but the simulation."""
    from gaptop.cli.paths import start_log
    from gaptop.lab.scenarios import SCENARIOS

    if list_them:
        width = max(len(name) for name in SCENARIOS)
        for name, entry in SCENARIOS.items():
            click.echo(f"{name:<{width}}  {entry.says}")
        return
    if scenario not in SCENARIOS:
        raise click.UsageError(f"no scenario is called {scenario!r}; gaptop demo --list shows those there are.")
    start_log()
    from gaptop.lab.launch import Lab, LabError

    try:
        with Lab() as lab:
            if seconds or as_json or not sys.stdout.isatty():
                from gaptop.cli.live import report_live

                code = report_live(
                    probe_config_of(lab.start(scenario, seed)),
                    seconds or REPORT_SECONDS,
                    as_json=as_json,
                    stream=False,
                    fail_on=None,
                    ascii_only=ascii_only,
                )
            else:
                from gaptop.cli.screen import load, run_live

                info = lab.start(scenario, seed, meanwhile=load)
                code = run_live(probe_config_of(info), ascii_only=ascii_only, mouse=not no_mouse)
    except LabError as error:
        raise Stop(str(error), Exit.NOTHING_TO_OBSERVE) from None
    ctx.exit(code)


def probe_config_of(info: LabInfo) -> dict[str, Any]:
    """The lab is no real server that could be discovered, so the probe is told what it is."""
    from gaptop.cli.target import Target, probe_config
    from gaptop_collectors.target import Server

    server = Server(info.url, info.engine, info.version, info.model, sequence_cap=info.sequence_cap)
    config = probe_config(Target(gpu=False), server)
    config["servers"][0]["processes"] = [
        {"pid": process.pid, "role": process.role, "name": process.name} for process in info.processes
    ]
    return {**config, "feeds": [info.feed], "simulated": True}
