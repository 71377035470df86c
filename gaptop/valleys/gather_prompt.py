"""The prompts' part of the evidence: when they are booked, and how many belong to a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.valleys import reading
from gaptop.valleys.reference import Reference

BOOKING: Final = 1.0
"""Seconds after a valley in which the prompt that caused it is booked: two readings at two a second."""

TOLD: Final = 0.4
"""Share of the booking time that must have been read before "nothing was booked" says something: one reading of two."""

LATE: Final = frozenset({"prompt_end", "late", "finish"})
"""Refresh rules under which a prompt moves its counter only after its work is done."""


def prompt_flow(
    timeline: Timeline, metrics: Sequence[str], start: float, end: float, before: Reference
) -> float | None:
    """Prompt tokens a second over the stretch; what is booked right after its end belongs to it, less the usual."""
    inside = reading.increase(timeline, "tokens.prompt", metrics, start, end)
    booked = reading.increase(timeline, "tokens.prompt", metrics, start, end + BOOKING)
    rate = reading.rate(timeline, "tokens.prompt", metrics, start, end)
    if booked is None and inside is None:
        return rate
    usual = (before.rate("tokens.prompt", metrics) or 0.0) * BOOKING
    most = max((booked or inside or 0.0) - usual, (rate or 0.0) * (end - start))
    return most / (end - start)


def prompt_late(views: Mapping[str, SourceView], metrics: Sequence[str]) -> bool:
    """Whether one of the servers books a prompt only when its prefill has ended."""
    infos = [views[item].info for item in metrics if item in views]
    return any(info.refresh_by_signal.get("tokens.prompt", info.refresh) in LATE for info in infos)


def prompt_settled(timeline: Timeline, metrics: Sequence[str], end: float) -> bool:
    """Whether the prompts were read again after ``end``."""
    found = reading.series(timeline, "tokens.prompt", metrics)
    return bool(found) and all(timeline.coverage(item, end, end + BOOKING) >= TOLD for item in found)
