"""What the rules share: scores that mean the same everywhere, and numbers as facts."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.model import Cause, Fact, Finding

CERTAIN: Final = 0.95
"""Several numbers that hardly anything else explains."""
STRONG: Final = 0.85
"""The tell-tale of the cause, with its main alternative ruled out."""
LIKELY: Final = 0.65
"""The tell-tale, but its alternatives were not all seen."""
POSSIBLE: Final = 0.45
"""Fits, and no more; other causes would look the same."""
WEAK: Final = 0.25
"""Under what is needed to be named."""

WORKER_UNSEEN: Final = "the worker's threads not seen: the engine waited for it"
"""What was going on is only in the stacks of the worker process."""

FEW: Final = 0.25
"""Requests on average that still count as none: one gauge reading of four at the valley's edge."""
SOME: Final = 0.5
"""Requests on average that count as some."""
KV_FULL: Final = 0.95
"""From here on a request more finds no blocks; vLLM was measured between 0.95 and 1 while it preempted."""
KV_TIGHT: Final = 0.90
"""A long prompt may need more blocks than are left here."""
SLOW: Final = 0.5
"""Progress under half of the usual."""
OUTWEIGHS: Final = 2.0
"""Prompt tokens must flow at twice the usual decode rate (or twice their own usual one) to have filled the steps."""

COLD: Final = 0.35
"""Power (or a counter) under 35 % of its busy level is that of a device that does no work: spinning kernels were seen
at 20-35 %, and idle cards lie lower."""

UNTOUCHED: Final = 0.9
"""Progress above this share of the usual was not held up: steady servers scatter by 10 %."""


def quiet(evidence: Evidence) -> bool | None:
    """Whether nothing ran and nothing waited; None unless both were seen."""
    if evidence.running is None or evidence.waiting is None:
        return None
    return evidence.running.mean <= FEW and evidence.waiting.mean <= FEW


def gauge_fact(signal: str, gauge: Gauge | None, what: str, unit: str = "requests") -> tuple[Fact, ...]:
    """A gauge as a fact, with its range where it moved; nothing where it was not seen."""
    if gauge is None:
        return ()
    digits = 2 if unit == "ratio" else 0
    if gauge.high - gauge.low < 10**-digits / 2:
        says = f"{what} {gauge.mean:.{digits}f}"
    else:
        says = f"{what} {gauge.low:.{digits}f} to {gauge.high:.{digits}f}"
    return (Fact(signal, round(gauge.mean, 4), unit, says),)


def waiting_fact(evidence: Evidence) -> tuple[Fact, ...]:
    """The waiting requests as a fact, with the reason where they were not read."""
    facts = gauge_fact("sched.waiting", evidence.waiting, "waiting")
    if not evidence.waiting_why:
        return facts
    return tuple(Fact(item.signal, item.value, item.unit, f"{item.says} ({evidence.waiting_why})") for item in facts)


def rate_fact(signal: str, rate: float | None, before: float | None, what: str, unit: str) -> tuple[Fact, ...]:
    """A rate against the time before."""
    if rate is None:
        return ()
    then = "" if before is None else f" (before: {before:.4g}/s)"
    return (Fact(signal, round(rate, 4), unit, f"{what} {rate:.4g}/s{then}"),)


def prompts_outweigh(evidence: Evidence) -> bool:
    """Whether so many prompt tokens belong to the stretch that prefill filled its steps."""
    usual = max(evidence.prompt_before or 0.0, evidence.decode_before or 0.0)
    return evidence.prompt_flow is not None and usual > 0.0 and evidence.prompt_flow >= OUTWEIGHS * usual


def nothing(cause: Cause, *against: str, unseen: tuple[str, ...] = ()) -> Finding:
    """The cause is out, on these numbers (or could not be seen at all)."""
    return Finding(cause, 0.0, against=against, unseen=unseen)
