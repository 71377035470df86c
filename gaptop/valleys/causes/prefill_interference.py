"""prefill_interference: prompt tokens flow while decode stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.valleys.causes.cache_pressure import evicted_prefixes, recomputed_fact, recomputes_more
from gaptop.valleys.causes.memory_share import CLEARLY, HALF, memory_share, share_fact
from gaptop.valleys.causes.pace import prompts_explain
from gaptop.valleys.causes.rule import (
    COOL,
    DOUBTED,
    EACH_FAST,
    FEW,
    HINTED,
    KV_TIGHT,
    LIKELY,
    ONE_STEP,
    OUTWEIGHS,
    POSSIBLE,
    SLOW,
    STRONG,
    WEAK,
    drawn,
    each_ratio,
    each_says,
    gauge_fact,
    heavy_traffic,
    in_first_step,
    not_told,
    nothing,
    prompts_a_step,
    prompts_move,
    prompts_outweigh,
    rate_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

UNBOOKED: Final = POSSIBLE - 0.03
"""Behind every cause that has a number of its own, and before none."""

SHARE: Final = 0.4
"""Share of the time in transfer frames that holds the steps up."""

PREFILLS: Final = 0.9
"""Of its busy level: what another device reads that computes the prompts."""

FILLS: Final = 10.0
"""Prompts are booked in lumps, so that their usual rate over a few seconds may be off by a factor. Where they outweigh
the usual decode tenfold, prefill fills the steps anyway."""

UNWATCHED: Final = "device not seen: a prefill keeps it busy, and where it idles its prompts only piled up meanwhile"


def prefill_interference(evidence: Evidence) -> Finding:
    said = _beside_full_cache(evidence, _by_prompts(evidence))
    if evidence.busy is not None or said.score <= WEAK:
        return said
    return replace(said, score=min(said.score, STRONG), unseen=(*said.unseen, UNWATCHED))


def _beside_full_cache(evidence: Evidence, said: Finding) -> Finding:
    """Prompts in the steps of a batch that a full cache keeps small: the one that cost more is the cause."""
    share = memory_share(evidence)
    if share is None or share.middle < HALF:
        return said
    most = HINTED if share.middle < CLEARLY else POSSIBLE
    return replace(said, score=min(said.score, most), against=(*said.against, share_fact(share).says))


def _by_prompts(evidence: Evidence) -> Finding:
    running = evidence.running
    if running is None:
        return nothing("prefill_interference", unseen=(not_told(evidence, "running requests"),))
    first = in_first_step(evidence)
    if running.high <= FEW and not first:
        return nothing("prefill_interference", "no request ran")
    progress = evidence.progress_ratio
    if progress is not None and progress > 1 - FEW:
        return nothing("prefill_interference", f"decode went on at {progress:.0%} of its usual rate")
    each = each_ratio(evidence)
    if each is not None and each >= EACH_FAST:
        return nothing("prefill_interference", f"each running request went on at {each_says(each)}")
    power = drawn(evidence)
    if evidence.device_idle is False and power is not None and power.ratio < COOL:
        return nothing("prefill_interference", f"{power.fact.says}: a prefill draws more, not less")
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
        unseen: tuple[str, ...] = ()
        if evidence.busy is None and prompts_move(evidence) is False and evidence.length >= ONE_STEP:
            score, unseen = POSSIBLE, ("device not seen: the prompt's tokens do not move, so it may be stuck",)
        return Finding("prefill_interference", score, detail, (*facts, fact), against, unseen, remedy)
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
            return _at_usual_rate(evidence, flow, (*facts, fact))
        if _unbooked(evidence):
            late = "a prefill that is under way is booked only when it ends"
            return Finding("prefill_interference", UNBOOKED, "long prefill under way", facts, unseen=(late,))
        return nothing(
            "prefill_interference", f"prompt tokens only {max(flow, 0.0):.4g}/s (usual decode {usual:.4g}/s)"
        )
    if evidence.device_idle and (handed := _hand_over(evidence)) is not None:
        score, how = handed
        detail = "prefill/decode hand-over"
        return Finding("prefill_interference", score, detail, (*facts, fact, how), remedy=Remedy.HAND_OVER)
    score = STRONG if progress is not None and progress < SLOW else LIKELY
    if recomputes_more(evidence):
        more = tuple(item.says for item in recomputed_fact(evidence))
        return Finding("prefill_interference", POSSIBLE, "long prefill", (*facts, fact), more)
    if evidence.kv is not None and evidence.kv.high >= KV_TIGHT and (lost := evicted_prefixes(evidence)) is not None:
        return Finding("prefill_interference", LIKELY - 0.1, "long prefill", (*facts, fact), (lost.says,))
    if first:
        detail = "prefill alone: no decode waited for it"
        return Finding("prefill_interference", score, detail, (*facts, fact), _idle(evidence), (), Remedy.PREFILL_ALONE)
    detail = "long prefill blocks decode" if progress is not None and progress < SLOW else "chunk too large"
    return Finding("prefill_interference", _score(evidence, score), detail, (*facts, fact), _idle(evidence))


def _at_usual_rate(evidence: Evidence, flow: float, facts: tuple[Fact, ...]) -> Finding:
    """Prompts at their usual rate are a reason only where the device is known to be at work on something; they are more
    likely one where they were most of what it did while each request slowed down."""
    if recomputes_more(evidence):
        more = tuple(item.says for item in recomputed_fact(evidence))
        return Finding("prefill_interference", WEAK, "chunk too large", facts, more)
    each = each_ratio(evidence)
    most = evidence.decode_rate is not None and flow >= OUTWEIGHS * evidence.decode_rate
    if evidence.busy is None:
        score = WEAK
    elif prompts_explain(evidence) is False:
        score = _score(evidence, POSSIBLE)
    elif most and not evidence.frozen and each is not None and each < EACH_FAST:
        heavier = prompts_a_step(evidence)
        score = _score(evidence, LIKELY if heavier is not None and heavier >= OUTWEIGHS else DOUBTED)
    else:
        score = _score(evidence, POSSIBLE)
    return Finding("prefill_interference", score, "chunk too large", facts)


def _hand_over(evidence: Evidence) -> tuple[float, Fact] | None:
    """Prompts were computed, and the idle device that decodes them had to wait for their KV: how surely, and a fact."""
    transfer = critical(evidence).transfer
    if transfer is not None and transfer >= SHARE:
        says = f"KV transfer frames {transfer:.0%} of the time"
        return STRONG + 0.03, Fact("host.thread_activity", round(transfer, 4), "ratio", says)
    if (moved := heavy_traffic(evidence)) is not None:
        return LIKELY + 0.1, moved
    peers = evidence.peers_busy
    if peers is None or peers < PREFILLS * (evidence.busy_level or 1.0):
        return None
    return LIKELY + 0.1, Fact("device.busy", round(peers, 4), "ratio", f"another device worked {peers:.0%} meanwhile")


def _unbooked(evidence: Evidence) -> bool:
    """Nothing was booked, but the valley has not ended yet, and a busy device may well be at a prompt."""
    return evidence.prompt_late and not evidence.prompt_settled and evidence.device_idle is False


def _rests(evidence: Evidence) -> bool:
    """Whether idle time is to be explained: with its edges a dip's mean may still be over half of the level."""
    return evidence.device_idle is True or evidence.kind == "utilisation"


def _score(evidence: Evidence, score: float) -> float:
    return min(WEAK, score) if _rests(evidence) else score


def _idle(evidence: Evidence) -> tuple[str, ...]:
    return ("the device was idle; a prefill would have kept it busy",) if _rests(evidence) else ()
