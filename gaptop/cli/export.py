"""``gaptop export FILE``: a recording for other programs: stacks for flame graphs, everything for Perfetto."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName
from gaptop.cli.own_rules import own_rules

if TYPE_CHECKING:
    from gaptop.export.labels import ThreadLabel
    from gaptop.timeline.timeline import Timeline
    from gaptop.timeline.types import StackTimes, ThreadId
    from gaptop.valleys.model import Assessment

_FOREVER: Final = 1e9
"""Seconds of history that are kept: all of it."""

_LISTED: Final = 12


class Moment(click.ParamType[float]):
    """Seconds since the start of the stream."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            moment = float(value)
        except ValueError:
            moment = math.nan
        if not 0.0 <= moment < _FOREVER:
            self.fail(f"{value!r} is no moment; give seconds since the stream's start, as the report does.", param, ctx)
        return moment


class Threads(click.ParamType[str]):
    """``critical``, ``all`` or a thread id."""

    name = "threads"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("critical", "all") and not (value.isascii() and value.isdigit()):
            self.fail(f"{value!r} is no choice of threads; give critical, all or a thread id.", param, ctx)
        return str(value)


@click.command(short_help="Write a recording for flame graph programs or Perfetto.")
@click.argument("file", type=FileName(), metavar="FILE|-")
@click.option(
    "--as",
    "form",
    type=click.Choice(["folded", "speedscope", "perfetto"]),
    required=True,
    help="folded: lines 'process;thread;frame;frame MILLISECONDS'. speedscope: JSON, a profile a thread. "
    "perfetto: a JSON trace of everything (valleys, lanes, stacks) for ui.perfetto.dev.",
)
@click.option("--valley", metavar="ID", help="The time of this valley; its id stands in the report.")
@click.option("--from", "start", type=Moment(), metavar="S", help="From this moment on, in seconds of the stream.")
@click.option("--to", "end", type=Moment(), metavar="S", help="Until this moment.")
@click.option("--thread", "chosen", type=Threads(), default="critical", metavar="TID|critical|all", show_default=True)
@own_rules
@click.option("-o", "--output", type=FileName(), metavar="OUT", help="Where to, a new file. Default: standard output.")
@click.pass_context
def export(
    ctx: click.Context,
    *,
    file: str,
    form: str,
    valley: str | None,
    start: float | None,
    end: float | None,
    chosen: str,
    output: str | None,
) -> None:
    """Write what a recording holds, of a valley, of any interval or of all of it, for other programs.

    critical are the threads that the device waits for. What was not seen in that time is told on standard error.
    """
    from gaptop.cli.new_file import exists, put
    from gaptop.export.summary import summary

    if valley is not None and (start is not None or end is not None):
        raise click.UsageError("--valley names a time already; give it, or --from and --to.")
    path = Path(output) if output not in (None, "-") else None
    if path is None and form != "folded" and sys.stdout.isatty():
        raise click.UsageError(f"{form} is JSON for another program; name a file with -o, or pipe it.")
    if path is not None and os.path.lexists(path):
        raise exists(path)
    whole = form == "perfetto"
    source = sys.stdin.buffer if file == "-" else Path(file)
    timeline, assessment = _read(source, judged=whole or valley is not None, series=whole)
    first, last = _interval(timeline, start, end)
    if assessment is not None and valley is not None:
        first, last = _of_valley(assessment, valley, file, last)
    if first >= last:
        raise click.UsageError(f"nothing lies between {first:g} s and {last:g} s; --to must come after --from.")
    if whole and assessment is not None:
        put(path, _trace(timeline, assessment, file, chosen, first, last))
        told = f"{last - first:.1f} s: open it at ui.perfetto.dev (nothing is uploaded there)"
        tell(f"wrote {told}" if path is None else f"wrote {path}: {told}")
        ctx.exit(Exit.FINE)
    found = _seen(timeline, _choose(timeline, file, chosen), first, last)
    put(path, _text(timeline, found, form, first, last, file))
    told = summary([times for _, _, times in found], folded=form == "folded")
    tell(f"wrote {told}" if path is None else f"wrote {path}: {told}")
    ctx.exit(Exit.FINE)


def _read(source: Any, *, judged: bool, series: bool) -> tuple[Timeline, Assessment | None]:
    """All stacks of the stream (with all ``series``, where they are wanted), and where that is wanted its valleys.
    Raises Stop for an unreadable one."""
    from gaptop.cli.report import lines_of
    from gaptop.cli.session import classifier
    from gaptop.recording.lines import Batch
    from gaptop.timeline.timeline import Timeline
    from gaptop.valleys.analyst import Analyst

    # The valleys are found as the report finds them, in a history of its length.
    stacks, timeline = Timeline(keep_seconds=_FOREVER), Timeline(classifier() if judged else None)
    analyst = Analyst(timeline) if judged else None
    for line in lines_of(source):
        if series or not isinstance(line, Batch):
            stacks.apply(line)
        if analyst is not None:
            timeline.apply(line)
            analyst.apply(line)
    return stacks, None if analyst is None else analyst.finish()


def _interval(timeline: Timeline, start: float | None, end: float | None) -> tuple[float, float]:
    """What was asked for; by default the range of a snapshot, or everything."""
    newest = [view.newest for view in timeline.sources.values() if view.newest is not None]
    known = timeline.range
    first, last = (known.start, known.end) if known is not None else (0.0, max(timeline.now, *newest, 0.0))
    return first if start is None else start, last if end is None else end


def _of_valley(assessment: Assessment, name: str, file: str, last: float) -> tuple[float, float]:
    for valley in assessment.valleys:
        if valley.id == name:
            return valley.start_s, last if valley.end_s is None else valley.end_s
    names = _listed([valley.id for valley in assessment.valleys])
    raise Stop(f"{file} has no valley {name}; {f'it has {names}' if names else 'it has none at all'}.", Exit.USAGE)


def _choose(timeline: Timeline, file: str, chosen: str) -> list[tuple[ThreadLabel, ThreadId]]:
    """The wanted threads, those that the device waits for first. Raises Stop where there are none."""
    from gaptop.export.labels import ThreadLabel
    from gaptop.valleys.scope import process_ref

    every = []
    for thread in timeline.threads():
        process = process_ref(timeline.sources[thread.source].info)
        label = ThreadLabel(process.name, process.pid, timeline.thread_name(thread), thread.tid)
        every.append((not process.is_critical(thread.tid), process.pid, thread.tid, label, thread))
    every.sort(key=lambda item: item[:3])
    wanted = [
        item for item in every if chosen == "all" or (not item[0] if chosen == "critical" else item[2] == int(chosen))
    ]
    if not every:
        told = [item.says for item in timeline.health.values() if item.collector == "host.threads_pyspy" and item.says]
        why = told[0] if told else "no recorder delivered any while it was made."
        raise Stop(f"{file} holds no stacks: {why}", Exit.NOTHING_TO_OBSERVE)
    if not wanted:
        others = _listed([f"{label.tid} ({label.thread}, {label.process_name})" for *_, label, _ in every])
        which = "a thread that the device waits for" if chosen == "critical" else f"a thread {chosen}"
        raise Stop(f"{file} holds no stacks of {which}; it has those of {others}.", Exit.NOTHING_TO_OBSERVE)
    return [(label, thread) for *_, label, thread in wanted]


def _trace(timeline: Timeline, assessment: Assessment, file: str, chosen: str, first: float, last: float) -> str:
    """Perfetto's file. A recording without stacks has all the rest."""
    from gaptop import __version__
    from gaptop.export.perfetto import perfetto

    threads = _choose(timeline, file, chosen) if timeline.threads() else []
    made = perfetto(timeline, assessment.valleys, threads, first, last, f"gaptop {__version__}")
    return json.dumps(made, separators=(",", ":"), allow_nan=False) + "\n"


def _seen(
    timeline: Timeline, threads: Sequence[tuple[ThreadLabel, ThreadId]], first: float, last: float
) -> list[tuple[ThreadLabel, ThreadId, StackTimes]]:
    from gaptop.export.summary import unseen

    every = [(label, thread, timeline.stack_times(thread, first, last)) for label, thread in threads]
    found = [item for item in every if item[2].stacks]
    if not found:
        why = unseen([item[2] for item in every])
        raise Stop(
            f"no stack of these threads was seen between {first:.2f} s and {last:.2f} s ({why}); choose another time, "
            "or other threads.",
            Exit.NOTHING_TO_OBSERVE,
        )
    return found


def _text(
    timeline: Timeline,
    found: Sequence[tuple[ThreadLabel, ThreadId, StackTimes]],
    form: str,
    first: float,
    last: float,
    file: str,
) -> str:
    from gaptop import __version__
    from gaptop.export.folded import folded
    from gaptop.export.speedscope import speedscope

    if form == "folded":
        return folded((label, times) for label, _, times in found)
    spans = [(label, timeline.spans(thread, first, last)) for label, thread, _ in found]
    made = speedscope(spans, timeline.frames, first, last, Path(file).name, f"gaptop {__version__}")
    return json.dumps(made, separators=(",", ":"), allow_nan=False) + "\n"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
