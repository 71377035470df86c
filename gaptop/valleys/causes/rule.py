"""What the rules share: scores that mean the same everywhere, and numbers as facts."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gaptop.valleys.evidence import STANDSTILL, Evidence, Gauge
from gaptop.valleys.model import Cause, Fact, Finding

CERTAIN: Final = 0.95
"""Several numbers that hardly anything else explains."""
WITNESSED: Final = 0.90
"""The tell-tale of the cause was seen at its place (a frame, the kernel's own counter), and is not inferred."""
STRONG: Final = 0.85
"""The tell-tale of the cause, with its main alternative ruled out."""
SECONDED: Final = 0.75
"""The tell-tale and a second sign for it, but its alternatives were not all seen."""
LIKELY: Final = 0.65
"""The tell-tale, but its alternatives were not all seen."""
DOUBTED: Final = 0.55
"""The tell-tale without a sign that should be there as well: under LIKELY, and still clear of what merely fits."""
HINTED: Final = 0.50
"""Fits, and a weak sign speaks for it."""
POSSIBLE: Final = 0.45
"""Fits, and no more; other causes would look the same."""
FAINT: Final = 0.30
"""Under what is needed to be named, but the first to be looked at where nothing else fits."""
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
ONE_STEP: Final = 2.0
"""Seconds: nothing for longer than this is more than one slow step."""
OUTWEIGHS: Final = 2.0
"""Prompt tokens must flow at twice the usual decode rate (or twice their own usual one) to have filled the steps."""

MOVED: Final = 1e9
"""Bytes a second: a tenth of what the slowest link of a server GPU does. Decoding itself moves kilobytes a step."""

MORE: Final = 5.0
"""Times the usual traffic."""

COLD: Final = 0.35
"""Power (or a counter) under 35 % of its busy level is that of a device that does no work: spinning kernels were seen
at 20-35 %, and idle cards lie lower."""

COOL: Final = 0.6
"""Power under 60 % of its busy level: real work draws more, though a spin with some work beside it may too."""

EACH_FAST: Final = 0.8
"""Each request at this share of its usual speed is held up by nothing."""

FASTER: Final = 1.2
"""From here on the ratio may come from the valley's edges alone, and is told as no number."""

UNTOUCHED: Final = 0.9
"""Progress above this share of the usual was not held up: steady servers scatter by 10 %."""


class Drawn(NamedTuple):
    """What the device drew against its busy level, and that as a fact."""

    ratio: float
    fact: Fact


def drawn(evidence: Evidence) -> Drawn | None:
    """By the energy counter, which tells of the very time: power may be the mean of a second that began earlier."""
    if evidence.energy_ratio is not None:
        says = f"energy drawn at {evidence.energy_ratio:.0%} of its busy level"
        return Drawn(evidence.energy_ratio, Fact("device.energy", round(evidence.energy_ratio, 4), "ratio", says))
    if evidence.power_ratio is None:
        return None
    watts = "" if evidence.power is None else f", {evidence.power:.0f} W"
    says = f"power {evidence.power_ratio:.0%} of its busy level{watts}"
    return Drawn(evidence.power_ratio, Fact("device.power", round(evidence.power_ratio, 4), "ratio", says))


def in_first_step(evidence: Evidence) -> bool:
    """Whether a batch was in its first step: gauges move when a step ends, so that a prefill whose prompts were booked
    right afterwards reads as a device at work while all wait and none runs."""
    running, waiting = evidence.running, evidence.waiting
    if running is None or waiting is None or running.high > FEW or waiting.mean < SOME:
        return False
    return evidence.device_idle is False and evidence.prompt_late and prompts_outweigh(evidence)


def each_ratio(evidence: Evidence) -> float | None:
    """Tokens a second of each running request against the usual; None where any of it was not seen."""
    running, rate, before = evidence.running, evidence.decode_rate, evidence.decode_before
    if running is None or not running.mean or not running.before or rate is None or not before:
        return None
    return (rate / running.mean) / (before / running.before)


def each_says(each: float) -> str:
    """That ratio in words. Over the edges of a valley the tokens of requests that have ended are shared among those
    few that run, so that far more than the usual is no measured speed."""
    return f"{each:.0%} of its usual speed" if each <= FASTER else "its usual speed or more"


def all_deferred(evidence: Evidence) -> bool:
    """Whether nothing runs and every request that waits was deferred: the scheduler has none that it could run."""
    running, waiting, deferred = evidence.running, evidence.waiting, evidence.deferred
    if running is None or waiting is None or deferred is None:
        return False
    return running.mean <= FEW and deferred.mean >= SOME and waiting.mean - deferred.mean < SOME


def quiet(evidence: Evidence) -> bool | None:
    """Whether nothing ran and nothing waited; None unless both were seen."""
    if evidence.running is None or evidence.waiting is None:
        return None
    return evidence.running.mean <= FEW and evidence.waiting.mean <= FEW


def not_told(evidence: Evidence, what: str) -> str:
    """That gauges were not seen, and why where the server itself tells them too rarely."""
    if evidence.gauges_every is None:
        return f"{what} not seen"
    every = f"every {evidence.gauges_every:.3g} s" if math.isfinite(evidence.gauges_every) else "every so many steps"
    return f"{what} not seen: the server's gauges move {every}, and this lasted {evidence.length:.2g} s"


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


def counter_facts(evidence: Evidence) -> tuple[Fact, ...]:
    """What hardware counters read against the usual."""
    seen = (
        ("device.sm_active", "SM activity", evidence.sm_ratio),
        ("device.dram_active", "memory traffic", evidence.dram_ratio),
    )
    return tuple(
        Fact(signal, round(value, 4), "ratio", f"{what} {value:.0%} of the usual")
        for signal, what, value in seen
        if value is not None
    )


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


def prompts_a_step(evidence: Evidence) -> float | None:
    """New prompt tokens in each step against the usual; None where any of it was not seen. What slows every step, such
    as a clock or somebody else on the device, leaves it as it was."""
    flow, before = evidence.prompt_flow, evidence.prompt_before
    step, usual = evidence.step_rate, evidence.step_before
    if flow is None or not before or not step or not usual:
        return None
    return (flow / step) / (before / usual)


def steps_hold_less(evidence: Evidence) -> float | None:
    """Tokens of each step against the usual, where the steps themselves came as fast as ever; else None."""
    rate, before, step, usual = evidence.decode_rate, evidence.decode_before, evidence.step_rate, evidence.step_before
    if rate is None or not before or step is None or not usual or step < UNTOUCHED * usual:
        return None
    return (rate / step) / (before / usual)


def heavy_traffic(evidence: Evidence) -> Fact | None:
    """Far more bytes than usual into or out of the device, as a fact."""
    moved = evidence.moved
    if moved is None or moved.rate < MOVED or moved.rate < MORE * (moved.before or 0.0):
        return None
    usual = "" if moved.before is None else f" (before: {moved.before / 1e9:.2f} GB/s)"
    return Fact(moved.signal, round(moved.rate, 1), "bytes/s", f"{moved.rate / 1e9:.1f} GB/s {moved.says}{usual}")


def by_frames(evidence: Evidence, kind: str) -> float:
    """The largest share of a critical thread's time in which its frames told of ``kind``."""
    return max((item.frames.get(kind, 0.0) for item in evidence.threads if item.critical), default=0.0)


def prompts_move(evidence: Evidence) -> bool | None:
    """Whether prompt tokens come at all; None where they were not seen. At the edges some always do."""
    if evidence.prompt_rate is None:
        return None
    usual = max(evidence.prompt_before or 0.0, evidence.decode_before or 0.0)
    return evidence.prompt_rate > STANDSTILL * usual


def nothing(cause: Cause, *against: str, unseen: tuple[str, ...] = ()) -> Finding:
    """The cause is out, on these numbers (or could not be seen at all)."""
    return Finding(cause, 0.0, against=against, unseen=unseen)
