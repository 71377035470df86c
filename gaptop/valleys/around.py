"""One final valley, reduced to the numbers that trends and periods are made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId
from gaptop.valleys import reading
from gaptop.valleys.gather_prompt import BOOKING
from gaptop.valleys.model import Valley
from gaptop.valleys.recurrence import Sample
from gaptop.valleys.reference import Reference

LEAD: Final = 0.5
"""Seconds before a valley in which a prompt that belongs to it may already be told of: one reading."""

BEFORE: Final = 2.0
"""Seconds before a valley over which the batch and the cache are looked at: within it they follow from it."""

OUTPUTS: Final = 10.0
"""Seconds before a valley over which finished requests are counted."""


def sampled(
    timeline: Timeline, valley: Valley, metrics: Sequence[str], server: str, ordinary: Sequence[reading.Interval]
) -> Sample | None:
    """A final valley with what was around it, read up to a second after its end; None for one that did not end by a
    rise. ``ordinary``: the time before it with which it is compared."""
    if valley.end_s is None or valley.became_level:
        return None
    start, end = valley.start_s, valley.end_s
    before = max(0.0, start - BEFORE)
    booked = max(0.0, start - LEAD), end + BOOKING
    tokens, prompts = _prompts(timeline, metrics, *booked)
    usual = Reference(timeline, ordinary).rate("tokens.prompt", metrics)
    members = valley.members if valley.kind == "utilisation" else ()
    return Sample(
        id=valley.id,
        kind=valley.kind,
        server=server,
        devices=tuple(item.device for item in members),
        start_s=start,
        start_error_s=valley.start_error_s,
        length_s=end - start,
        idle_s=tuple(item.idle_s for item in members),
        cause=valley.verdict.cause,
        detail=valley.verdict.detail,
        prompt_tokens=None if tokens is None or prompts is None else tokens / prompts,
        output_tokens=_output_tokens(timeline, metrics, max(0.0, start - OUTPUTS), end + BOOKING),
        running=reading.mean(timeline, "sched.running", metrics, before, start),
        kv_used=reading.mean(timeline, "kv.used", metrics, before, start, "max"),
        prompts=prompts,
        prompts_usual=None if usual is None else usual * (booked[1] - booked[0]),
    )


def _prompts(
    timeline: Timeline, metrics: Sequence[str], start: float, end: float
) -> tuple[float, float] | tuple[None, None]:
    """Prompt tokens, and the requests that were begun; None where no prompt was told of."""
    tokens = reading.increase(timeline, "tokens.prompt", metrics, start, end)
    begun = _begun(timeline, metrics, start, end)
    if tokens is None or tokens < 1.0 or begun is None:
        return None, None
    # A prompt that was begun before, and is booked now, is one request too.
    return tokens, max(1.0, begun)


def _begun(timeline: Timeline, metrics: Sequence[str], start: float, end: float) -> float | None:
    """Requests that joined the batch: those that left it, and by how many it grew."""
    found = reading.series(timeline, "sched.running", metrics)
    if not found:
        return None
    ends = [(timeline.value_at(item, start), timeline.value_at(item, end)) for item in found]
    grown = [last - first for first, last in ends if first is not None and last is not None]
    finished = reading.increase(timeline, "sched.finished", metrics, start, end)
    if finished is not None and len(grown) == len(found):
        return finished + sum(grown)
    # An engine that does not count the finished ones (llama.cpp): by how much the batch rose from reading to reading.
    return sum(_rises(timeline, item, start, end) for item in found)


def _rises(timeline: Timeline, item: SeriesId, start: float, end: float) -> float:
    return float(np.clip(np.diff(timeline.steps(item, start, end).value), 0.0, None).sum())


def _output_tokens(timeline: Timeline, metrics: Sequence[str], start: float, end: float) -> float | None:
    """Generated tokens a request that finished; None where none did."""
    tokens = reading.increase(timeline, "tokens.decode", metrics, start, end)
    finished = reading.increase(timeline, "sched.finished", metrics, start, end)
    return None if tokens is None or finished is None or finished < 1.0 else tokens / finished
