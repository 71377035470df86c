"""stalled_busy: the device reads busy, and nothing comes out: a wedge, or a spin in a collective."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    CERTAIN,
    COLD,
    FEW,
    LIKELY,
    POSSIBLE,
    STRONG,
    WEAK,
    nothing,
    prompts_outweigh,
    rate_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

BUSY: Final = 0.9
"""Of the busy level; wedged devices read 96-100 %."""

COOL: Final = 0.6
"""Power under 60 % of its busy level: real work draws more, though a spin with some work beside it may too."""

AS_EVER: Final = 0.8
"""Counters above this share of the usual: the device computes as it does when tokens flow."""

SECONDS: Final = 2.0
"""Shorter than this a long step looks the same."""


def stalled_busy(evidence: Evidence) -> Finding:
    if evidence.busy is None:
        return nothing("stalled_busy", unseen=("device not seen",))
    level = evidence.busy_level or 1.0
    if evidence.busy < BUSY * level:
        return nothing("stalled_busy", f"the device was busy only {evidence.busy:.0%}")
    if evidence.running is not None and evidence.running.high <= FEW:
        return nothing("stalled_busy", "no request ran")
    awaits = holds_none(evidence)
    if awaits is not None:
        return nothing("stalled_busy", f"the engine itself awaited requests {awaits:.0%}")
    progress = evidence.progress_ratio
    if progress is None:
        return nothing("stalled_busy", unseen=("tokens not seen",))
    if not evidence.frozen:
        return nothing("stalled_busy", f"progress went on at {progress:.0%} of the usual")
    facts = (
        Fact("device.busy", round(evidence.busy, 4), "ratio", f"device busy {evidence.busy:.0%}"),
        *rate_fact("tokens.decode", evidence.decode_rate, evidence.decode_before, "decode tokens", "tokens/s"),
    )
    if evidence.length < SECONDS:
        return Finding("stalled_busy", POSSIBLE - 0.1, "wedge", facts, (f"only {evidence.length:.1f} s long",))
    facts = (*facts, *_counters(evidence))
    spins = _spins(evidence)
    if evidence.power_ratio is None:
        if spins:
            return Finding("stalled_busy", STRONG, "spin or wedge: busy, and its SMs or memory rest", facts)
        return _warm(evidence, LIKELY - 0.1, "wedge", facts, ("power not seen",))
    watts = "" if evidence.power is None else f", {evidence.power:.0f} W"
    says = f"power {evidence.power_ratio:.0%} of its busy level{watts}"
    facts = (*facts, Fact("device.power", round(evidence.power_ratio, 4), "ratio", says))
    if evidence.power_ratio < COLD or (spins and evidence.power_ratio < AS_EVER):
        return Finding("stalled_busy", CERTAIN, "spin or wedge: busy at low power", facts)
    if evidence.power_ratio < COOL or spins:
        return Finding("stalled_busy", STRONG, "spin or wedge: busy at lower power", facts)
    return _warm(evidence, LIKELY + 0.05, "wedge: busy at full power", facts, ())


def _spins(evidence: Evidence) -> bool:
    """Whether hardware counters say that the busy device does no work: a spin keeps a few SMs, and no memory, busy."""
    return any(item is not None and item < COLD for item in (evidence.sm_ratio, evidence.dram_ratio))


def _counters(evidence: Evidence) -> tuple[Fact, ...]:
    seen = (
        ("device.sm_active", "SM activity", evidence.sm_ratio),
        ("device.dram_active", "memory traffic", evidence.dram_ratio),
    )
    return tuple(
        Fact(signal, round(value, 4), "ratio", f"{what} {value:.0%} of the usual")
        for signal, what, value in seen
        if value is not None
    )


def _warm(evidence: Evidence, score: float, detail: str, facts: tuple[Fact, ...], unseen: tuple[str, ...]) -> Finding:
    """Not known to be cold: a long prefill looks the same as long as its prompt is not booked."""
    if prompts_outweigh(evidence):
        booked = (f"{(evidence.prompt_flow or 0.0) * evidence.length:.0f} prompt tokens were booked for that time",)
        return Finding("stalled_busy", WEAK, detail, facts, booked, unseen)
    hidden = ""
    if evidence.prompt_rate is None and evidence.prefilling is None:
        hidden = "prompt tokens not seen: a long prefill looks the same"
    elif evidence.prompt_late and not evidence.prompt_settled:
        hidden = "a long prefill looks the same: it is booked only when it ends"
    if hidden:
        return Finding(
            "stalled_busy", POSSIBLE, "wedge or long prefill", facts, (), (hidden, *unseen), Remedy.MAYBE_PREFILL
        )
    return Finding("stalled_busy", score, detail, facts, (), unseen)
