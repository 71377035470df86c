"""``gaptop lab score``: how right the verdicts are, on random cases whose truth is known."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.progress import Progress, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gaptop.lab.score.pool import Broken
    from gaptop.lab.score.run import Ran

FIRST_UNSEEN: Final = 10_000
"""The rules may be tuned on the seeds under this one only: a score on those says nothing."""


FAILURES: Final = 5
"""Failed cases that are named."""

CASE_SECONDS: Final = 3.0
"""Of one core, for a case once (measured: 2 s on a quiet machine, 4.8 s in a crowded one)."""


@click.command(short_help="How right the verdicts are, on random cases with a known truth.")
@click.option("--cases", type=click.IntRange(1), default=200, show_default=True, help="How many random cases.")
@click.option(
    "--seed",
    "--first-seed",
    "first",
    type=click.IntRange(0),
    default=FIRST_UNSEEN,
    show_default=True,
    help=f"The first case's seed. Those under {FIRST_UNSEEN} are for tuning the rules.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one a core.")
@click.option(
    "--missing",
    type=click.IntRange(0),
    metavar="N",
    help="Of so many cases the same with each source taken away. Default: a fifth of them.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON (null: there was nothing to measure).")
@click.option("--explain", type=click.IntRange(0), metavar="SEED", help="One case: what was true, and what was said.")
@click.option("--without", metavar="SOURCE", help="With --explain: take this source away.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="FOLDER", help="With --explain: its stream and truth.")
@click.pass_context
def score(
    ctx: click.Context,
    *,
    cases: int,
    first: int,
    jobs: int | None,
    missing: int | None,
    as_json: bool,
    explain: int | None,
    without: str | None,
    keep: Path | None,
) -> None:
    """Simulate random servers with random faults, run the whole analysis on each, and compare with the truth."""
    if explain is not None and as_json:
        raise click.UsageError("--explain tells one case in words; --json is for the whole score.")
    if explain is not None:
        _explain(explain, without, keep)
        ctx.exit(Exit.FINE)
    if keep is not None or without is not None:
        raise click.UsageError("--keep and --without are for one case; name it with --explain SEED.")
    from gaptop.lab.score.as_json import json_of
    from gaptop.lab.score.cases import MISSING
    from gaptop.lab.score.pool import FULL, Broken, score_all
    from gaptop.lab.score.table import render
    from gaptop.lab.score.tally import tally

    some = min(cases, cases // 5 if missing is None else missing)
    jobs = min(jobs or os.cpu_count() or 1, cases)
    began = time.monotonic()
    progress = _Progress(cases, some, len(MISSING), jobs)
    try:
        results = score_all(range(first, first + cases), tuple(MISSING), some, jobs, progress.said)
    finally:
        progress.close()
    broken = [item for item in results if isinstance(item, Broken)]
    done = [item for item in results if not isinstance(item, Broken)]
    if not done:
        raise Stop(_broken(broken, cases), Exit.BROKEN)
    whole = tally(item[FULL] for item in done)
    either = tally((item[FULL] for item in done), either=True)
    both = [item for item in done if len(item) > 1]
    taken = {name: tally(item[name] for item in both) for name in (FULL, *MISSING)} if both else {}
    if as_json:
        failed = {"failed": [{"seed": item.seed, "error": item.error} for item in broken]}
        click.echo(json.dumps({**json_of(whole, either, taken), **failed}, indent=2, allow_nan=False))
    else:
        click.echo(render(whole, either, taken, _head(cases, first, time.monotonic() - began)), nl=False)
    if broken:
        tell(_broken(broken, cases))
    ctx.exit(Exit.BROKEN if broken else Exit.FINE)


def _broken(broken: Sequence[Broken], cases: int) -> str:
    told = "; ".join(f"seed {item.seed}: {item.error}" for item in broken[:FAILURES])
    more = f"; and {len(broken) - FAILURES} more" if len(broken) > FAILURES else ""
    says = f"{len(broken)} of {cases} cases failed and are not in the score ({told}{more})"
    return f"{says}: a bug of gaptop's own; gaptop lab score --explain {broken[0].seed} shows it."


def _head(cases: int, first: int, seconds: float) -> str:
    tuned = "" if first >= FIRST_UNSEEN else "; TUNING SEEDS: the rules may have been fitted to these cases"
    return f"{cases} random cases, seeds {first} to {first + cases - 1}, {seconds / cases:.2f} s a case{tuned}"


class _Progress:
    """How long it will take, and how far it has come: the first ``some`` cases are run ``more`` times as well."""

    def __init__(self, cases: int, some: int, more: int, jobs: int) -> None:
        self._some, self._more = some, more
        runs = self._runs(cases)
        self._line = Progress(runs, lambda part: f"{self._cases} of {cases} cases")
        self._cases = 0
        if sys.stderr.isatty() and cases > 1:
            also = f", {some} of them also without each of {more} sources" if some else ""
            each = "one process" if jobs == 1 else f"{jobs} processes"
            tell(f"{cases} cases{also}: very roughly {duration(runs * CASE_SECONDS / jobs)} in {each}.")

    def said(self, cases: int) -> None:
        self._cases = cases
        self._line.done(self._runs(cases))

    def close(self) -> None:
        self._line.close()

    def _runs(self, cases: int) -> int:
        return cases + min(cases, self._some) * self._more


def _explain(seed: int, without: str | None, folder: Path | None) -> None:
    from gaptop.lab.score.cases import MISSING, case
    from gaptop.lab.score.cases import without as taken
    from gaptop.lab.score.explain import explain
    from gaptop.lab.score.run import run

    whole = case(seed)
    if without is not None and without not in MISSING:
        raise click.UsageError(f"no source is called {without!r}; choose from {', '.join(MISSING)}.")
    kept = None if folder is None else _place(folder, seed)
    ran = run(whole, None if without is None else taken(whole.view, without))
    click.echo(explain(ran, argue=True), nl=False)
    if kept is not None:
        _keep(ran, kept)


def _place(folder: Path, seed: int) -> Path:
    """Where the case goes, looked at before the long work. Raises Stop (exit 4)."""
    from gaptop.lab.fast.truth import beside

    path = folder / f"case-{seed}.gaptop"
    for file in (path, beside(path)):
        if file.exists():
            says = f"{file} exists and is not overwritten; remove it, or give another folder with --keep."
            raise Stop(says, Exit.UNWRITABLE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(folder, error) from None
    return path


def _no_place(folder: Path, error: OSError) -> Stop:
    says = f"cannot write into {folder}: {error.strerror}; give another folder with --keep."
    return Stop(says, Exit.UNWRITABLE)


def _keep(ran: Ran, path: Path) -> None:
    """The stream and the truth of one case, to be opened with ``gaptop open``. Raises Stop (exit 4)."""
    from gaptop.lab.fast.file import write
    from gaptop.lab.score.run import simulated
    from gaptop.recording.writer import WriteError

    try:
        write(simulated(ran.case), path)
    except WriteError as error:
        raise Stop(str(error), Exit.UNWRITABLE) from None
    except OSError as error:
        raise _no_place(path.parent, error) from None
    tell(f"wrote {path}, and the truth beside it; open it with: gaptop open {path}")
