"""prefill_interference: prompt tokens flow while decode stops."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    FEW,
    LIKELY,
    POSSIBLE,
    SLOW,
    STRONG,
    WEAK,
    gauge_fact,
    nothing,
    prompts_outweigh,
    rate_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

UNBOOKED: Final = POSSIBLE - 0.03
"""Behind every cause that has a number of its own, and before none."""

FILLS: Final = 10.0
"""Prompts are booked in lumps, so that their usual rate over a few seconds may be off by a factor. Where they outweigh
the usual decode tenfold, prefill fills the steps anyway."""


def prefill_interference(evidence: Evidence) -> Finding:
    running = evidence.running
    if running is None:
        return nothing("prefill_interference", unseen=("running requests not seen",))
    if running.high <= FEW:
        return nothing("prefill_interference", "no request ran")
    progress = evidence.progress_ratio
    if progress is not None and progress > 1 - FEW:
        return nothing("prefill_interference", f"decode went on at {progress:.0%} of its usual rate")
    flow = evidence.prompt_flow
    facts = (
        *rate_fact("tokens.decode", evidence.decode_rate, evidence.decode_before, "decode tokens", "tokens/s"),
        *gauge_fact("sched.running", running, "running"),
    )
    if evidence.prefilling is not None and evidence.prefilling >= 1 - FEW:
        fact = Fact("slots.prefilling", round(evidence.prefilling, 3), "requests", "requests were in their prefill")
        alone = evidence.prefilling >= running.mean - FEW
        detail = "prefill alone: no decode waited for it" if alone else "long prefill blocks decode"
        remedy = Remedy.PREFILL_ALONE if alone else Remedy.USUAL
        score, against = _score(evidence, STRONG + 0.05), _idle(evidence)
        return Finding("prefill_interference", score, detail, (*facts, fact), against, remedy=remedy)
    if flow is None:
        return nothing("prefill_interference", unseen=("prompt tokens not seen",))
    usual = max(evidence.prompt_before or 0.0, evidence.decode_before or 0.0)
    before = "not seen" if evidence.prompt_before is None else f"{evidence.prompt_before:.4g}/s"
    says = f"prompt tokens {flow:.4g}/s over the valley, booked when a prefill ends (usual: {before})"
    fact = Fact("tokens.prompt", round(flow, 3), "tokens/s", says)
    if not prompts_outweigh(evidence):
        if evidence.decode_before and flow >= FILLS * evidence.decode_before:
            return Finding("prefill_interference", _score(evidence, LIKELY - 0.1), "chunk too large", (*facts, fact))
        if flow > 0.0 and usual > 0.0 and flow >= usual:
            return Finding("prefill_interference", _score(evidence, POSSIBLE), "chunk too large", (*facts, fact))
        if _unbooked(evidence):
            late = "a prefill that is under way is booked only when it ends"
            return Finding("prefill_interference", UNBOOKED, "long prefill under way", facts, unseen=(late,))
        return nothing(
            "prefill_interference", f"prompt tokens only {max(flow, 0.0):.4g}/s (usual decode {usual:.4g}/s)"
        )
    score = STRONG if progress is not None and progress < SLOW else LIKELY
    detail = "long prefill blocks decode" if progress is not None and progress < SLOW else "chunk too large"
    return Finding("prefill_interference", _score(evidence, score), detail, (*facts, fact), _idle(evidence))


def _unbooked(evidence: Evidence) -> bool:
    """Nothing was booked, but the valley has not ended yet, and a busy device may well be at a prompt."""
    return evidence.prompt_late and not evidence.prompt_settled and evidence.device_idle is False


def _score(evidence: Evidence, score: float) -> float:
    return max(WEAK, score - 0.3) if evidence.device_idle else score


def _idle(evidence: Evidence) -> tuple[str, ...]:
    return ("the device was idle; a prefill would have kept it busy",) if evidence.device_idle else ()
