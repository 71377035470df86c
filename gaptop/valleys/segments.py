"""Cuts a valley into slices and gives each its own cause: several may follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.causes.rule import DOUBTED, LIKELY
from gaptop.valleys.detect import ENTER, LEAVE
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.model import Cause, Finding, Segment
from gaptop.valleys.reference import Reference
from gaptop.valleys.remedy import Remedy
from gaptop.valleys.scope import Scope
from gaptop.valleys.verdict import NARROW, SCORE_DIGITS, judge

SLICE: Final = 0.5
"""Seconds a slice at least: one reading of the metrics at the default rate."""

SLICES: Final = 32
"""Slices a valley at most, so that a long one costs no more to judge."""

ENDED_ENOUGH: Final = 1e-6

AS_FAST: Final = 0.8
"""Of the steps that hold few prompts: what slows them by less than a fifth is not what the valley is about."""

LOOKS_LIKE: Final[frozenset[Cause]] = frozenset({"stalled_busy"})
HAND_OVER_LOOKS_LIKE: Final[frozenset[Cause]] = LOOKS_LIKE | {"external_wait", "synchronisation"}
"""What the slices of a prefill cannot tell it from, as its prompt is booked at its end; with a hand-over of its KV."""


def _mistaken(best: Finding) -> frozenset[Cause]:
    """What the slices must not say: nothing, where the whole's prompts hardly speak for a prefill."""
    if best.cause != "prefill_interference" or best.score < DOUBTED:
        return frozenset()
    return HAND_OVER_LOOKS_LIKE if best.remedy is Remedy.HAND_OVER else LOOKS_LIKE


class _Told(NamedTuple):
    """What a part of a valley says: its cause where that is plain, what it would be without the stacks that the whole
    has and it has not, whether no step was taken in it, and its steps a second."""

    start: float
    end: float
    cause: Cause | None
    hint: Cause | None
    frozen: bool
    step_rate: float | None


def _as_fast(best: Finding, parts: list[_Told]) -> list[_Told]:
    """Where the steps that hold prompts are as fast as those of the valley's own cause, which hold few, the prompts
    are no cause of their own."""
    own = [part.step_rate for part in parts if part.cause == best.cause and part.step_rate]
    if best.cause == "prefill_interference" or best.score < LIKELY or not own:
        return parts
    usual = sum(own) / len(own)
    return [
        part._replace(cause=best.cause)
        if part.cause == "prefill_interference" and (part.step_rate or 0.0) >= AS_FAST * usual
        else part
        for part in parts
    ]


def segments(
    timeline: Timeline,
    scope: Scope,
    stretch: Stretch,
    before: Reference,
    best: Finding,
    still: float = 0.0,
    *,
    stacks: bool = False,
) -> tuple[Segment, ...]:
    """Slices on a fixed grid, each with its own cause where that is plain and the whole valley's otherwise, merged.

    A prompt is booked when its prefill ends: in all slices but the last one a prefill looks like a wedge, so that none
    of them may say so where the whole valley, booking included, is a prefill. ``still``: seconds without any step that
    the slices are parts of. ``stacks``: the whole has them, so that a slice too short for them says nothing of its own.
    """
    if stretch.end - stretch.start < 2 * SLICE:
        return (Segment(stretch.start, stretch.end, best.cause),)
    mistaken = _mistaken(best)
    # Where the whole's own case is weak, a part that makes a clearly better one is plain enough.
    enough = min(LIKELY, round(best.score + NARROW, SCORE_DIGITS)) if best.cause != "unknown" else LIKELY

    def plain(first: float, last: float) -> _Told:
        part = gather(timeline, scope, replace(stretch, start=first, end=last, part=True), before)
        findings = judge(replace(part, stood_still=still))
        found = next(item for item in findings if item.cause not in mistaken)
        hint = found.cause if found.score >= enough else None
        cause = None if stacks and not part.stacks_seen else hint
        return _Told(first, last, cause, hint, part.frozen is True, part.step_rate)

    def standstill(run: Sequence[_Told]) -> list[Segment]:
        """Slices without a step and without a cause of their own tell more together than each. Where devices stop or
        start amid them, or they themselves say another thing than those before, causes follow one another, and what
        they look like together is none of them."""
        first, last = run[0].start, run[-1].end
        whole = plain(first, last).cause if len(run) > 1 else None
        turns = {part.start for last_one, part in pairwise(run) if part.hint != last_one.hint}
        edges = [first, *sorted(turns.union(_turns(timeline, stretch, run, before))), last]
        if len(edges) == 2:
            return [Segment(first, last, whole or best.cause)]
        return [Segment(start, end, plain(start, end).cause or whole or best.cause) for start, end in pairwise(edges)]

    judged = _as_fast(best, [plain(item.start, item.end) for item in slices(stretch)])
    parts: list[Segment] = []
    for unclear, group in groupby(judged, key=lambda item: item.frozen and item.cause is None):
        run = list(group)
        if unclear:
            parts += standstill(run)
        else:
            parts += [Segment(item.start, item.end, item.cause or best.cause) for item in run]
    # More is seen over several slices than in each: connections are counted once a second, waits need many samples.
    longer = [
        replace(part, cause=plain(part.start_s, part.end_s).cause or part.cause) if part.cause != best.cause else part
        for part in _merged(parts)
    ]
    return _merged(longer)


def _turns(timeline: Timeline, stretch: Stretch, run: Sequence[_Told], before: Reference) -> list[float]:
    """Where the first of these slices begins in which another set of the devices is idle, and each such after it; idle
    and busy are what they are to a valley of the device."""
    idle: set[str] = set()
    turns = []
    for part in run:
        was = frozenset(idle)
        for source in stretch.devices:
            busy = reading.mean(timeline, "device.busy", (source,), part.start, part.end, "mean")
            level = stretch.level or before.mean("device.busy", (source,), "mean")
            if busy is None or level is None:
                continue
            if busy < ENTER * level:
                idle.add(source)
            elif busy > LEAVE * level:
                idle.discard(source)
        if part is not run[0] and idle != was:
            turns.append(part.start)
    return turns


def _merged(parts: Iterable[Segment]) -> tuple[Segment, ...]:
    """Neighbours of one cause as one."""
    merged: list[Segment] = []
    for part in parts:
        if merged and merged[-1].cause == part.cause:
            merged[-1] = replace(part, start_s=merged[-1].start_s)
        else:
            merged.append(part)
    return tuple(merged)


def slices(stretch: Stretch) -> list[Stretch]:
    """Slices on a fixed grid; one shorter than half a step goes to its neighbour."""
    step = SLICE
    while (stretch.end - stretch.start) / step > SLICES:
        step *= 2
    found: list[Stretch] = []
    start = stretch.start
    while start < stretch.end:
        end = min((int(start / step + ENDED_ENOUGH) + 1) * step, stretch.end)
        if stretch.end - end < step / 2:
            end = stretch.end
        found.append(replace(stretch, start=start, end=end, part=True))
        start = end
    return found
