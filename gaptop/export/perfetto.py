"""Chrome's JSON trace, as ui.perfetto.dev opens it: a counter a lane, real threads, valleys on tracks of their own.

Format: "Trace Event Format" as Perfetto's importer documents it. ``ts`` and ``dur`` are microseconds of the stream;
slices of one track nest, so that valleys that overlap get tracks of their own. A counter holds its last value there,
and cannot say that it was not read: what was not seen is a slice on the track "not seen".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gaptop.export.labels import ThreadLabel, common, framed
from gaptop.timeline.stacks import Frame
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId
from gaptop.valleys.model import CAUSE_NAMES, Valley
from gaptop_collectors.signals import SIGNALS, split_key

_VALLEYS: Final = 4_200_001
"""Our own tracks have process ids over the largest that Linux gives (4 194 304)."""
_LANES: Final = _VALLEYS + 1
_MARKS: Final = _VALLEYS + 2
_ORDER: Final = {_VALLEYS: -3, _LANES: -2, _MARKS: -1}
_PER_THREAD: Final = "host.thread_activity"

Event = dict[str, Any]


def perfetto(
    timeline: Timeline,
    valleys: Sequence[Valley],
    threads: Iterable[tuple[ThreadLabel, ThreadId]],
    start: float,
    end: float,
    exporter: str,
) -> dict[str, Any]:
    """The trace of [start, end), in seconds of the stream."""
    events: list[Event] = [
        *_named(_VALLEYS, "valleys"),
        *_named(_LANES, "measured"),
        *_named(_MARKS, "not seen, and what happened"),
        *_valleys(valleys, start, end),
        *_counters(timeline, start, end),
        *_unseen(timeline, start, end),
        *_happened(timeline, start, end),
    ]
    for label, thread in threads:
        events += _thread(timeline, label, thread, start, end)
    header = timeline.header
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "metadata": {
            "exporter": exporter,
            "clock": "microseconds since the recording's start",
            "start_utc": header.start_utc if header is not None else None,
            "simulated": header.simulated if header is not None else None,
        },
    }


def _micros(t: float) -> float:
    return round(t * 1e6, 3)


def _named(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    if pid in _ORDER:
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": _ORDER[pid]}}


def _track(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(pid: int, tid: int, name: str, start: float, end: float, args: Mapping[str, Any]) -> Event:
    length = _micros(end - start)
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _micros(start), "dur": length, "args": dict(args)}


def _valleys(valleys: Sequence[Valley], start: float, end: float) -> Iterator[Event]:
    """Each with its argument, on the first track that is free at its time; its parts, if any, inside it."""
    free: list[float] = []
    for valley in sorted(valleys, key=lambda item: (item.start_s, item.id)):
        first, last = max(valley.start_s, start), min(end if valley.end_s is None else valley.end_s, end)
        if last <= first:
            continue
        place = next((index for index, until in enumerate(free) if until <= first), len(free))
        if place == len(free):
            free.append(last)
            yield _track(_VALLEYS, place + 1, f"valleys {place + 1}" if place else "valleys")
        free[place] = last
        said = valley.verdict
        detail = f": {said.detail}" if said.detail else ""
        yield _slice(_VALLEYS, place + 1, f"{CAUSE_NAMES[said.cause]}{detail}", first, last, _argument(valley))
        if len(said.segments) > 1:
            for part in said.segments:
                begun, ended = max(part.start_s, first), min(part.end_s, last)
                if ended > begun:
                    yield _slice(_VALLEYS, place + 1, CAUSE_NAMES[part.cause], begun, ended, {})


def _argument(valley: Valley) -> dict[str, Any]:
    said = valley.verdict
    return {
        "id": valley.id,
        "kind": valley.kind,
        "devices": list(valley.devices),
        "confidence": said.confidence,
        "final": valley.final,
        "confirmed": valley.confirmed,
        "edges_error_s": [valley.start_error_s, valley.end_error_s],
        "idle_s": valley.idle_s,
        "tokens_lost": valley.tokens_lost,
        "for": [fact.told for fact in said.evidence],
        "against": [f"{CAUSE_NAMES[item.cause]}: {item.because}" for item in said.excluded],
        "unseen": list(said.unseen),
        "runner_up": None if said.runner_up is None else CAUSE_NAMES[said.runner_up[0]],
        "try": said.advice,
    }


def _counters(timeline: Timeline, start: float, end: float) -> Iterator[Event]:
    for signal in SIGNALS:
        if signal == _PER_THREAD:
            continue
        ids = timeline.ids(signal)
        several = len({one.source for one in ids}) > 1
        for one in ids:
            name = _lane(one, several)
            steps = timeline.steps(one, start, end)
            last = None
            for begun, value in zip(steps.start.tolist(), steps.value.tolist(), strict=True):
                if value != last:
                    at = _micros(max(begun, start))
                    yield {"ph": "C", "name": name, "pid": _LANES, "ts": at, "args": {"value": value}}
                last = value


def _lane(one: SeriesId, several: bool) -> str:
    signal, labels = split_key(one.key)
    told = [f"{name}={value}" for name, value in sorted(labels.items())] + ([one.source] if several else [])
    unit = SIGNALS[signal].unit
    rate = "/s" if SIGNALS[signal].kind == "counter" else ""
    measured = f" ({unit}{rate})" if unit or rate else ""
    return " ".join([f"{signal}{measured}", *told])


def _unseen(timeline: Timeline, start: float, end: float) -> Iterator[Event]:
    """A track for each source with holes."""
    for tid, source in enumerate(sorted(timeline.sources), 1):
        holes = timeline.holes(source, start, end)
        if holes:
            yield _track(_MARKS, tid, f"not seen: {source}")
        for hole in holes:
            first, last = max(hole.start, start), min(hole.end, end)
            yield _slice(_MARKS, tid, "not seen", first, last, {"reason": hole.reason})


def _happened(timeline: Timeline, start: float, end: float) -> Iterator[Event]:
    for event in timeline.events:
        if start <= event.t < end:
            args = {"says": event.says, "source": event.src}
            yield {"ph": "i", "s": "p", "name": event.what, "pid": _MARKS, "ts": _micros(event.t), "args": args}


def _thread(timeline: Timeline, label: ThreadLabel, thread: ThreadId, start: float, end: float) -> Iterator[Event]:
    """Frames as slices inside one another; neighbours of the same frames are one slice, and nothing spans a gap."""
    yield from _named(label.pid, label.process_name)
    yield _track(label.pid, label.tid, label.thread_name)
    held: list[tuple[Frame, str, float]] = []
    until = start
    for span in timeline.spans(thread, start, end):
        begun, ended = max(span.start, start), min(span.end, end)
        if ended <= begun:
            continue
        frames = framed(timeline.frames(span.stack))
        kept = common([frame for frame, _, _ in held], frames) if begun <= until else 0
        yield from _closed(label, held[kept:], until)
        held = held[:kept] + [(frame, span.activity, begun) for frame in frames[kept:]]
        until = ended
    yield from _closed(label, held, until)


def _closed(label: ThreadLabel, held: Sequence[tuple[Frame, str, float]], at: float) -> Iterator[Event]:
    for (function, file, line), activity, begun in reversed(held):
        where = f"{file}:{line}" if line else file
        yield _slice(label.pid, label.tid, function, begun, at, {"where": where, "activity": activity})
