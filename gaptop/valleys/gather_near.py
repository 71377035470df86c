"""What a thread did in a gap that is shorter than the doubt of its stacks: what it hardly ever does at other times, or
what went on all the while, tells that; nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Span, ThreadId
from gaptop.valleys import reading
from gaptop.valleys.reference import Reference

RARE: Final = 4.0
"""Times the seconds that ordinary time would have shown about there: so many samples in a row are no chance."""

FILLS: Final = 0.5
"""Of the gap's idle seconds: what was seen for less leaves room for another; samples that are far apart may miss the
rest."""

WORKED: Final = 0.2
"""Share of ordinary time in which a thread must have had requests, so that what it does with them is known."""

AWAITS: Final = "await_requests"
UNTOLD: Final = frozenset({"other"})
"""A few samples of code that no rule knows tell nothing."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A whole gap of some devices, and for how many of its seconds they idled."""

    start: float
    end: float
    idle: float
    devices: tuple[str, ...]
    level: float


def near(timeline: Timeline, thread: ThreadId, gap: Gap, error: float, before: Reference) -> str:
    """The activity that a thread was in for the idle seconds of a gap, give or take the ``error`` of its stacks at both
    ends; "" where it did nothing about there that it does not do at other times as well, or nobody knows what it does
    then."""
    first, last = gap.start - error, gap.end + error
    did = timeline.shares(thread, first, last)
    found = {name: seconds for name, seconds in did.items() if name not in UNTOLD and seconds >= FILLS * gap.idle}
    if gap.idle >= error and (name := _throughout(timeline, thread, gap, error)) in found:
        return name
    # An engine without requests launches nothing: what it awaited besides must have left the device idle elsewhere.
    if AWAITS in found and found[AWAITS] - _beside(timeline, gap, error) >= FILLS * gap.idle:
        return AWAITS

    def rare(name: str) -> bool:
        usual = before.ask(("share", thread, name), partial(_share, timeline, thread, name))
        return usual is not None and found[name] >= RARE * usual * (last - first)

    return max((name for name in found if rare(name)), key=lambda name: (found[name], name), default="")


def _throughout(timeline: Timeline, thread: ThreadId, gap: Gap, error: float) -> str:
    """The activity that went on from before a gap to after it, also where its edges lie as far inside as they may; more
    than one sample of anything else would have been seen. "" where there is none."""
    runs: groupby[str, Span] = groupby(
        timeline.spans(thread, gap.start - error, gap.end + error), key=lambda span: span.activity
    )
    for activity, group in runs:
        spans = list(group)
        start, end = spans[0].start, spans[-1].end
        inside = min(end - error, gap.end) - max(start + error, gap.start)
        seen = timeline.shares(thread, gap.start, gap.end).get(activity, 0.0)
        if start <= gap.start and end >= gap.end and min(inside, seen) >= FILLS * (gap.end - gap.start):
            return activity
    return ""


def _beside(timeline: Timeline, gap: Gap, error: float) -> float:
    """Seconds within that error of a gap, and outside it, in which its devices idled or were not seen."""
    idle = 0.0
    for start, end in ((gap.start - error, gap.start), (gap.end, gap.end + error)):
        busy = reading.mean(timeline, "device.busy", gap.devices, start, end, "mean")
        idle += error * idle_share(busy or 0.0, gap.level)
    return idle


def idle_share(busy: float, level: float) -> float:
    """Of the time in which the devices were ``busy`` for that share, against their busy level."""
    return max(0.0, 1.0 - busy / level)


def _share(timeline: Timeline, thread: ThreadId, name: str, start: float, end: float) -> float | None:
    """The activity's share of the time in which the thread was seen (and had requests); None where it was not."""
    seconds = timeline.shares(thread, start, end)
    total = sum(seconds.values())
    if name != AWAITS:
        worked = total - seconds.get(AWAITS, 0.0)
        total = worked if worked >= WORKED * total else 0.0
    return seconds.get(name, 0.0) / total if total > 0.0 else None
