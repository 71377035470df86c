"""artefact: one signal alone moved, and the independent ones did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.valleys.causes.demand import clients_left, gone
from gaptop.valleys.causes.offload import computes_on_host
from gaptop.valleys.causes.rule import (
    COLD,
    FEW,
    LIKELY,
    POSSIBLE,
    STRONG,
    UNTOUCHED,
    counter_facts,
    gauge_fact,
    nothing,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import EMPTY, critical, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

POWER_HELD: Final = 0.9
"""Board power above this share of its busy level: the device did not really rest."""

RESTED: Final = 0.8
"""Power under this share of its busy level: the device did less than before, whoever's tokens come."""

SHORTEST: Final = 1.0
"""Seconds. Cards were measured whose power is an average over a second."""

READINGS: Final = 2
"""Readings inside a valley at least: between two of them its edges are averaged away."""

OURS: Final = 0.1
"""Our own calls for a tenth of the time, beyond the usual: enough to hold a driver's lock that work needs."""


def artefact(evidence: Evidence) -> Finding:
    if evidence.kind == "progress" or evidence.frozen:
        return _stale(evidence)
    return _phantom_idle(evidence)


def _phantom_idle(evidence: Evidence) -> Finding:
    """The device reads idle, and tokens flow as ever."""
    if evidence.device_idle is False:
        return nothing("artefact", f"the device was busy {evidence.busy:.0%}: it did not read idle")
    progress = evidence.progress_ratio
    facts: tuple[Fact, ...] = ()
    if progress is not None:
        rate = evidence.decode_rate if evidence.decode_rate is not None else evidence.step_rate
        facts = (Fact("tokens.decode", rate, "tokens/s", f"progress {progress:.0%} of the usual"),)
    power_seen = evidence.power_ratio is not None and _long_enough(evidence, evidence.power_every)
    if evidence.power_ratio is not None and power_seen:
        says = f"power {evidence.power_ratio:.0%} of its busy level"
        facts = (*facts, Fact("device.power", round(evidence.power_ratio, 4), "ratio", says))
    coarse = not _long_enough(evidence, evidence.tokens_every)
    ours = evidence.own_share is not None and evidence.own_share >= OURS
    if (evidence.slow_calls or ours) and (progress is None or progress >= UNTOUCHED):
        slow = Fact("our_slow_call", float(evidence.slow_calls), "calls", "our own call was slow at that time")
        score = POSSIBLE if coarse or progress is None else LIKELY
        return Finding("artefact", score, "our own call", (slow, *facts), remedy=Remedy.OUR_CALL)
    if progress is None:
        return _stale(evidence)
    if progress < UNTOUCHED:
        return nothing("artefact", f"progress fell to {progress:.0%} of the usual: independent signals agree")
    if coarse:
        return nothing("artefact", unseen=(_too_coarse(evidence),))
    if (computed := computes_on_host(evidence)) is not None:
        return nothing("artefact", f"the device did rest: {computed.says}")
    if (awaits := holds_none(evidence)) is not None:
        says = f"its engine awaited requests {awaits:.0%}: the device did rest, and another engine's tokens went on"
        return nothing("artefact", says)
    if evidence.counters_fell:
        fell = " and ".join(evidence.counters_fell)
        return nothing("artefact", f"hardware counters ({fell}) fell as well: the device did rest")
    if any(item is not None and item >= UNTOUCHED for item in (evidence.sm_ratio, evidence.dram_ratio)):
        facts = (*facts, *counter_facts(evidence))
        detail = "window aliasing: a sampled reading alone fell"
        return Finding("artefact", STRONG, detail, facts, remedy=Remedy.ALIASING)
    if evidence.power_ratio is not None and not power_seen:
        seldom = f"power is read every {evidence.power_every or SHORTEST:.3g} s: too seldom to judge by"
        return nothing("artefact", unseen=(seldom,))
    if evidence.power_ratio is not None and evidence.power_ratio >= POWER_HELD:
        return Finding("artefact", STRONG, "idle reading while tokens and power went on", facts)
    if evidence.power_ratio is not None and evidence.power_ratio < RESTED:
        says = "device mapping: the device rests, so the tokens come from another one, or from a buffer"
        return Finding("artefact", LIKELY, says, facts, remedy=Remedy.MAPPING)
    return Finding(
        "artefact",
        LIKELY,
        "idle reading while tokens went on",
        facts,
        unseen=("power not seen",) if evidence.power_ratio is None else (),
    )


def _long_enough(evidence: Evidence, every: float | None) -> bool:
    """Whether readings ``every`` so many seconds tell a valley of this length from what lies around it."""
    return evidence.length >= max(SHORTEST, READINGS * (every or 0.0)) - 1e-6


def _too_coarse(evidence: Evidence) -> str:
    every = "" if evidence.tokens_every is None else f" (read every {evidence.tokens_every:.3g} s)"
    return f"tokens{every} are too coarse to show whether they paused for {evidence.length:.2f} s"


def _stale(evidence: Evidence) -> Finding:
    """Gauges that only a step refreshes say "running", the engine holds no request, and the device reads busy.

    Where the device idles as well, the valley is real and only its gauges are old: that is no demand.
    """
    if evidence.running is None or evidence.running.high <= FEW:
        return nothing("artefact", "the gauges do not claim running requests")
    if evidence.frozen is not True:
        return nothing("artefact", "steps were taken, so the gauges were fresh")
    awaits = critical(evidence).awaits
    if clients_left(evidence):
        return _left(evidence)
    if awaits is None:
        return nothing("artefact", unseen=("threads not seen: the gauges may be as old as the last step",))
    if awaits < EMPTY:
        return nothing("artefact", f"the engine awaited requests only {awaits:.0%} of the time")
    if evidence.device_idle is not False:
        return nothing("artefact", "the engine held no request and no device says otherwise: only its gauges were old")
    awaited = Fact("host.thread_activity", round(awaits, 4), "ratio", f"the engine awaited requests {awaits:.0%}")
    return _old(evidence, awaited, STRONG, LIKELY)


def _left(evidence: Evidence) -> Finding:
    """All clients hung up, and nobody saw the engine's thread."""
    if evidence.device_idle is not False:
        return nothing("artefact", "all clients have left and no device says otherwise: only its gauges were old")
    open_ones = evidence.in_flight or evidence.connections
    asked = gauge_fact("host.connections", open_ones, "connections", "connections")
    return replace(_old(evidence, asked[0], LIKELY + 0.05, LIKELY - 0.05), unseen=(gone(evidence),))


def _old(evidence: Evidence, because: Fact, phantom: float, stale: float) -> Finding:
    running = 0.0 if evidence.running is None else evidence.running.mean
    facts = (Fact("sched.running", running, "requests", "running, as of the last step"), because)
    if evidence.power_ratio is not None and evidence.power_ratio < COLD:
        watts = Fact(
            "device.power", round(evidence.power_ratio, 4), "ratio", f"power {evidence.power_ratio:.0%} of usual"
        )
        detail = "phantom busy: it reads busy at idle power"
        return Finding("artefact", phantom, detail, (*facts, watts), remedy=Remedy.PHANTOM)
    return Finding("artefact", stale, "stale gauge", facts, remedy=Remedy.STALE_GAUGE)
