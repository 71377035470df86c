"""What preempted requests cost: the tokens that they had to compute again are in no counter, but can be estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.evidence import Gauge
from gaptop.valleys.gather_prompt import BOOKING
from gaptop.valleys.reference import Reference

HALF: Final = 0.5
"""Requests on average under which nobody can say what a running one holds."""


def recomputed_flow(
    timeline: Timeline,
    metrics: Sequence[str],
    start: float,
    end: float,
    kv: Gauge | None,
    running: Gauge | None,
    before: Reference,
) -> float | None:
    """About how many tokens a second were computed again over the stretch: preempted requests times what a running one
    held on average. None where one of the two was not seen.

    vLLM counts a preemption with the first token after it, which is when the work has been done again: what is counted
    right after the stretch belongs to it, less the usual.
    """
    capacity = reading.highest(timeline, "kv.capacity", metrics, start, end)
    inside = reading.increase(timeline, "sched.preemptions", metrics, start, end)
    if capacity is None or inside is None or kv is None or running is None or running.mean < HALF:
        return None
    booked = reading.increase(timeline, "sched.preemptions", metrics, start, end + BOOKING) or inside
    usual = (before.rate("sched.preemptions", metrics) or 0.0) * BOOKING
    return max(booked - usual, inside) * kv.mean * capacity / running.mean / (end - start)
