"""stalled_busy: the device reads busy, and nothing comes out: a wedge, or a spin in a collective."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.valleys.causes.collective import blind, bytes_move, link_fact, several
from gaptop.valleys.causes.demand import clients_left
from gaptop.valleys.causes.rule import (
    CERTAIN,
    COLD,
    COOL,
    FEW,
    LIKELY,
    ONE_STEP,
    POSSIBLE,
    SOME,
    STRONG,
    WEAK,
    counter_facts,
    drawn,
    nothing,
    prompts_move,
    prompts_outweigh,
    rate_fact,
)
from gaptop.valleys.causes.unwatched import unwatched
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import critical, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

BUSY: Final = 0.9
"""Of the busy level; wedged devices read 96-100 %."""

COOL_STEP: Final = 1.0
"""Seconds: a long step draws power, so that less time is enough without it; or without a booked prompt, where no power
was read. Some cards' power is a second's mean."""

ENDED_ENOUGH: Final = 1e-3
"""Seconds that a clock scatters."""

HOT: Final = 1.1
"""Over 110 % of its busy power the device computes more than usual, as in a prefill; a wedge was never seen to."""

AS_EVER: Final = 0.8
"""Counters above this share of the usual: the device computes as it does when tokens flow."""

GAUGES_OLD: Final = "threads and connections not seen: nobody may be waiting, and the gauges be as old as the last step"
"""After a mass abort the gauges of some engines stand until the next step, and a resident device may go on reading
busy at idle power."""


def stalled_busy(evidence: Evidence) -> Finding:
    if evidence.busy is None:
        return unwatched(evidence)
    level = evidence.busy_level or 1.0
    if evidence.busy < BUSY * level:
        return nothing("stalled_busy", f"the device was busy only {evidence.busy:.0%}")
    if evidence.running is not None and evidence.running.high <= FEW:
        return nothing("stalled_busy", "no request ran")
    awaits = holds_none(evidence)
    if awaits is not None:
        return nothing("stalled_busy", f"the engine itself awaited requests {awaits:.0%}")
    if clients_left(evidence):
        return nothing("stalled_busy", "all clients have left, and no step has refreshed the gauges since")
    if evidence.prefilling is not None and evidence.prefilling >= 1 - FEW and prompts_move(evidence):
        return nothing("stalled_busy", f"a prompt was in its prefill, at {evidence.prompt_rate or 0.0:.4g} tokens/s")
    progress = evidence.progress_ratio
    if progress is None:
        return nothing("stalled_busy", unseen=("tokens not seen",))
    if not evidence.frozen:
        return nothing("stalled_busy", f"progress went on at {progress:.0%} of the usual")
    facts = (
        Fact("device.busy", round(evidence.busy, 4), "ratio", f"device busy {evidence.busy:.0%}"),
        *rate_fact("tokens.decode", evidence.decode_rate, evidence.decode_before, "decode tokens", "tokens/s"),
    )
    power = drawn(evidence)
    cool = (power is not None and power.ratio < COOL) or _spins(evidence)
    least = COOL_STEP if cool or (power is None and _booked(evidence)) else ONE_STEP
    if evidence.length < least - ENDED_ENOUGH:
        return Finding("stalled_busy", POSSIBLE - 0.1, "wedge", facts, (f"only {evidence.length:.1f} s long",))
    facts = (*facts, *counter_facts(evidence))
    return _of_ranks(evidence, _stalled(evidence, facts)) if several(evidence) else _stalled(evidence, facts)


def _of_ranks(evidence: Evidence, said: Finding) -> Finding:
    """A collective that hangs moves no bytes between the devices, a slow one does."""
    moving, link = bytes_move(evidence), link_fact(evidence)
    if moving:
        return replace(said, score=min(said.score, WEAK), against=(*said.against, f"bytes moved: {link[0].says}"))
    if moving is None:
        return replace(said, score=min(said.score, LIKELY + 0.05), unseen=(*said.unseen, *blind(evidence)))
    return replace(said, facts=(*said.facts, *link))


def _stalled(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding:
    power, spins = drawn(evidence), _spins(evidence)
    if power is None:
        if spins:
            detail = "spin or wedge: busy, and its SMs or memory rest"
            return Finding("stalled_busy", STRONG, detail, facts, unseen=_old(evidence))
        return _warm(evidence, LIKELY - 0.1, "wedge", facts, ("power not seen",))
    facts = (*facts, power.fact)
    if power.ratio < COLD or (spins and power.ratio < AS_EVER):
        return Finding("stalled_busy", CERTAIN, "spin or wedge: busy at low power", facts, unseen=_old(evidence))
    if power.ratio < COOL or spins:
        return Finding("stalled_busy", STRONG, "spin or wedge: busy at lower power", facts, unseen=_old(evidence))
    return _warm(evidence, LIKELY + 0.05, "wedge: busy at full power", facts, ())


def _booked(evidence: Evidence) -> bool:
    """Whether a prefill of that length would be seen: its prompt is booked by now, or as it goes."""
    told = evidence.prompt_rate is not None and (evidence.prompt_settled or not evidence.prompt_late)
    return told and not evidence.prefilling and not prompts_outweigh(evidence)


def _old(evidence: Evidence) -> tuple[str, ...]:
    """What to doubt where nothing but the gauges says that there is anything to work on."""
    asked = evidence.in_flight or evidence.connections
    if critical(evidence).awaits is not None or (asked is not None and asked.mean >= SOME):
        return ()
    return (GAUGES_OLD,)


def _spins(evidence: Evidence) -> bool:
    """Whether hardware counters say that the busy device does no work: a spin keeps a few SMs, and no memory, busy."""
    return any(item is not None and item < COLD for item in (evidence.sm_ratio, evidence.dram_ratio))


def _warm(evidence: Evidence, score: float, detail: str, facts: tuple[Fact, ...], unseen: tuple[str, ...]) -> Finding:
    """Not known to be cold: a long prefill looks the same as long as its prompt is not booked."""
    if prompts_outweigh(evidence):
        booked = (f"{(evidence.prompt_flow or 0.0) * evidence.length:.0f} prompt tokens were booked for that time",)
        return Finding("stalled_busy", WEAK, detail, facts, booked, unseen)
    power = drawn(evidence)
    if power is not None and power.ratio >= HOT:
        hot = (f"{power.fact.says}: it computed more than usual",)
        return Finding("stalled_busy", WEAK, detail, facts, hot, unseen)
    hidden = ""
    if evidence.prefilling is not None and evidence.prefilling >= 1 - FEW:
        hidden = "a long prefill looks the same: a slot is in one, whose prompt tokens do not move"
    elif evidence.prompt_rate is None and evidence.prefilling is None:
        hidden = "prompt tokens not seen: a long prefill looks the same"
    elif evidence.prompt_late and not evidence.prompt_settled:
        hidden = "a long prefill looks the same: it is booked only when it ends"
    if hidden:
        return Finding(
            "stalled_busy", POSSIBLE, "wedge or long prefill", facts, (), (hidden, *unseen), Remedy.MAYBE_PREFILL
        )
    if evidence.length < ONE_STEP:
        return Finding("stalled_busy", min(score, LIKELY - 0.1), detail, facts, (), unseen)
    return Finding("stalled_busy", score, detail, facts, (), unseen)
