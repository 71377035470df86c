"""``gaptop lab run``: a simulated server's recording and its truth, without waiting for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gaptop.cli.durations import Duration, Number
from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName

if TYPE_CHECKING:
    from gaptop.lab.fast.view import Dialect, Refresh


class _Refresh(click.ParamType["Refresh"]):
    name = "rule"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Refresh:
        if value == "step" or isinstance(value, tuple):
            return value
        text = str(value)
        if text.isdigit() and int(text) > 0:
            return "steps", int(text)
        return "seconds", Duration().convert(text, param, ctx)


@click.command(short_help="Write a simulated server's recording, and its truth beside it.")
@click.argument("scenario", default="tour")
@click.option("--list", "list_them", is_flag=True, help="List the scenarios.")
@click.option("-o", "--output", type=FileName(), metavar="FILE", help="A new file; its truth is FILE.truth.jsonl.")
@click.option("--seconds", type=Duration(), default="60s", show_default=True, metavar="TIME", help="Simulated time.")
@click.option("--start", type=Duration(), metavar="TIME", help="The server has run so long at the recording's start.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of everything that is random.")
@click.option(
    "--dialect",
    type=click.Choice(["vllm", "vllm-0.8", "llamacpp"]),
    default="vllm",
    show_default=True,
    help="Whose metrics.",
)
@click.option("--scrape", type=Number(0.125, 10), default=0.5, show_default=True, help="Seconds between scrapes.")
@click.option(
    "--refresh",
    type=_Refresh(),
    default="step",
    show_default=True,
    help="When metrics move: step, every N steps (N), or every so often (TIME).",
)
@click.option("--window", type=Number(0.05, 2), default=0.2, show_default=True, help="NVML's window, in seconds.")
@click.option(
    "--rounding",
    type=click.Choice(["nearest", "down"]),
    default="nearest",
    show_default=True,
    help="NVML's whole per cents.",
)
@click.option("--gpm", is_flag=True, help="The GPU has activity counters (Hopper and newer).")
@click.option("--no-power", is_flag=True, help="The GPU tells no power.")
@click.option("--no-nvml", is_flag=True, help="No GPU driver.")
@click.option("--stacks", type=Number(1, 200), default=50.0, show_default=True, help="Stack samples a second.")
@click.option("--no-stacks", is_flag=True, help="py-spy may not attach.")
@click.option("--no-states", is_flag=True, help="No run states of threads.")
@click.option("--no-host", is_flag=True, help="Nothing of processes, cgroup and host.")
def run(
    *,
    scenario: str,
    list_them: bool,
    output: str | None,
    seconds: float,
    start: float | None,
    seed: int,
    dialect: Dialect,
    scrape: float,
    refresh: Refresh,
    window: float,
    rounding: Literal["nearest", "down"],
    gpm: bool,
    no_power: bool,
    no_nvml: bool,
    stacks: float,
    no_stacks: bool,
    no_states: bool,
    no_host: bool,
) -> None:
    """Write what gaptop would record beside a simulated server, and what really held it up. Nothing is measured."""
    from gaptop.lab.scenarios import SCENARIOS

    if list_them:
        width = max(len(name) for name in SCENARIOS)
        for name, entry in SCENARIOS.items():
            click.echo(f"{name:<{width}}  {entry.says}")
        return
    if scenario not in SCENARIOS:
        raise click.UsageError(f"no scenario is called {scenario!r}; gaptop lab run --list shows those there are.")
    if output is None:
        raise click.UsageError("name a new file with -o FILE.")
    if output == "-":
        raise click.UsageError("the recording and its truth are two files, so they need a name: -o FILE.")
    from gaptop.cli.new_file import exists
    from gaptop.cli.progress import Progress
    from gaptop.lab.fast.driver import Fast
    from gaptop.lab.fast.file import write
    from gaptop.lab.fast.truth import beside
    from gaptop.lab.fast.view import View
    from gaptop.recording.writer import WriteError

    view = View(
        window_s=window,
        rounding=rounding,
        nvml=not no_nvml,
        power=not no_power,
        gpm=gpm,
        dialect=dialect,
        scrape_s=scrape,
        refresh=refresh,
        stacks_hz=None if no_stacks else stacks,
        states=not no_states,
        host=not no_host,
        start_s=start or 0.0,
    )
    recording = Path(output)
    for path in (recording, beside(recording)):
        if path.exists():
            raise exists(path)
    progress = Progress(seconds, lambda part: f"{part:.0f} of {seconds:g} simulated seconds")
    try:
        truth = write(Fast(SCENARIOS[scenario], seed, seconds, view), recording, progress.done)
    except WriteError as error:
        raise Stop(str(error), Exit.UNWRITABLE) from None
    except OSError as error:
        raise Stop(
            f"cannot write {beside(recording)}: {error.strerror}; give another place with -o.", Exit.UNWRITABLE
        ) from None
    finally:
        progress.close()
    tell(f"wrote {recording} ({recording.stat().st_size / 1e3:.0f} kB, {seconds:g} simulated seconds) and {truth}.")
