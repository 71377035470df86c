"""What one py-spy recorder wrote: from a chrometrace to stack spans on our clock. Pure.

py-spy (0.4) writes B and E events only when a thread's stack changes, in microseconds since an origin of its own that
lies between two of its log lines; with ``-t`` the outermost frame is ``thread (TID): name``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gaptop_collectors.collector import Frame, StackSpan

_ROOT: Final = re.compile(r"thread \((?:(\d+)|(0x[0-9a-fA-F]+))\)(?:: (.*))?", re.DOTALL)
_LOG: Final = re.compile(
    r"^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z INFO +\S+\] (config|Got virtual memory maps)", re.MULTILINE
)
_MOST_STACKS: Final = 20_000


class BadTrace(Exception):
    """The recorder's output is not a chrometrace."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The recorder's time zero on our clock, and how far off it may be."""

    at_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorder's window. ``threads`` maps OS thread ids to names."""

    covered: tuple[int, int]
    spans: list[StackSpan]
    threads: Mapping[int, str]


def bracket(log: str, wall_offset_ns: int) -> tuple[int, int] | None:
    """The interval in which py-spy took its time zero, from its log lines; None when they are not both there.

    ``wall_offset_ns`` is CLOCK_REALTIME - CLOCK_MONOTONIC.
    """
    stamps: dict[str, int] = {}
    for date, nanos, word in _LOG.findall(log):
        seconds = int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
        stamps.setdefault(word, seconds * 1_000_000_000 + int(nanos) - wall_offset_ns)
    low, high = stamps.get("config"), stamps.get("Got virtual memory maps")
    return (low, high) if low is not None and high is not None and low <= high else None


def find_origin(
    last_us: int, asked_ns: int | None, written_ns: int, spawned_ns: int, live_ns: int, log: tuple[int, int] | None
) -> Origin:
    """Time zero, kept inside what is known for sure: it lies between two lines of py-spy's own log (where they can be
    read; else between its start and its first sign of life), and the last event (``last_us``) came before its trace
    reached us (``written_ns``), but not before we asked for it (``asked_ns``).

    A trace reaches us at once unless we are kept off our core; the latest moment that is left is taken even then, for
    where the two lines lie far apart it is py-spy that was kept off its core, mostly before its time zero (measured).
    """
    low, high = log if log is not None and spawned_ns <= log[0] and log[1] <= live_ns else (spawned_ns, live_ns)
    arrived = written_ns - last_us * 1000
    if asked_ns is not None and low <= asked_ns - last_us * 1000 <= high:
        low = asked_ns - last_us * 1000
    at = min(max(arrived, low), high)
    return Origin(at, high - low if arrived < low else at - low)


class StackTable:
    """Frames and stacks, each kept once: equal stacks of one target are the same object."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str, int], tuple[int, Frame]] = {}
        self._stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}

    def frame(self, name: str, file: str, line: int) -> tuple[int, Frame]:
        key = (name, file, line)
        known = self._frames.get(key)
        if known is None:
            known = self._frames[key] = (len(self._frames), Frame(name, file, line))
        return known

    def stack(self, frames: list[tuple[int, Frame]]) -> tuple[Frame, ...]:
        key = tuple(number for number, _ in frames)
        known = self._stacks.get(key)
        if known is None:
            known = self._stacks[key] = tuple(frame for _, frame in frames)
        return known

    def trim(self) -> None:
        """Forget everything once it has grown too large; call it between two traces."""
        if len(self._stacks) > _MOST_STACKS or len(self._frames) > _MOST_STACKS:
            self._frames.clear()
            self._stacks.clear()


@dataclass(slots=True)
class _Thread:
    root: str
    since: int
    frames: list[tuple[int, Frame]]
    rooted: bool = False


def parse_events(body: bytes) -> list[Any]:
    """The events of a chrometrace; raises :class:`BadTrace`."""
    try:
        events = json.loads(body)
    except ValueError as error:
        raise BadTrace(f"py-spy's output is not JSON ({error})") from error
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise BadTrace("py-spy's output is not a list of events")
    return events


def last_us(events: list[Any]) -> int:
    """The latest time stamp; 0 without events."""
    return max((int(event.get("ts", 0)) for event in events), default=0)


def read_trace(
    events: list[Any],
    origin_ns: int,
    delay_ns: int,
    table: StackTable,
    *,
    not_before_ns: int | None = None,
    join_ns: int = 0,
    alive: Collection[int] | None = None,
) -> Trace | None:
    """The spans of a trace; None when nothing was sampled.

    ``delay_ns`` is the mean delay between a change and the sample that shows it, taken off all times. Nothing is
    delivered before ``not_before_ns`` (the recorder before has covered that); where this one begins less than
    ``join_ns`` after it, its first stacks are taken to reach back, as between any two samples. py-spy keeps the last
    stack of a thread that has ended open for ever: with ``alive``, that span is left out for the tids not in it.
    """
    try:
        return _read(events, origin_ns - delay_ns, table, not_before_ns, join_ns, alive)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadTrace(f"py-spy's output has an event that cannot be read ({error!r})") from error


def _read(
    events: list[Any],
    zero: int,
    table: StackTable,
    not_before: int | None,
    join: int,
    alive: Collection[int] | None,
) -> Trace | None:
    if not events:
        return None
    table.trim()
    stamps = [event["ts"] for event in events]
    first, end = zero + min(stamps) * 1000, zero + max(stamps) * 1000
    start = first
    if not_before is not None and (first < not_before or first - not_before <= join):
        start = not_before
    threads: dict[int, _Thread] = {}
    names: dict[int, str] = {}
    spans: list[StackSpan] = []

    def cut(thread: _Thread, until: int, last: bool) -> None:
        begun = start if thread.since == first else max(thread.since, start)
        if until <= begun or not thread.rooted:
            return
        tid, name = _root(thread.root)
        if last and alive is not None and tid not in alive:
            return
        names[tid] = name
        if thread.frames:
            spans.append(StackSpan(tid, begun, until, table.stack(thread.frames)))

    for event, stamp in zip(events, stamps, strict=True):
        at = zero + stamp * 1000
        thread = threads.setdefault(event["tid"], _Thread("", at, []))
        if at > thread.since:
            cut(thread, at, at == end)
            thread.since = at
        if event["ph"] == "B":
            if thread.rooted:
                arguments = event["args"]
                thread.frames.append(table.frame(event["name"], arguments["filename"], arguments.get("line") or 0))
            else:
                thread.root, thread.rooted = event["name"], True
        elif thread.frames:
            thread.frames.pop()
        else:
            thread.rooted = False
    for thread in threads.values():
        cut(thread, end, True)
    spans.sort(key=lambda span: span.start_ns)
    return Trace((start, max(start, end)), spans, names)


def _root(name: str) -> tuple[int, str]:
    match = _ROOT.match(name)
    if match is None:
        raise ValueError(f"outermost frame is {name!r}, not a thread")
    decimal, pointer, label = match.groups()
    return (int(decimal) if decimal else int(pointer, 16)), label or ""
