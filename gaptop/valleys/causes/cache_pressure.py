"""cache_pressure: no KV blocks left, so the batch shrinks while the queue grows."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.admission_stall import at_cap
from gaptop.valleys.causes.demand import clients_left
from gaptop.valleys.causes.memory_share import HALF, SURE, Share, memory_share, share_fact, share_of_loss
from gaptop.valleys.causes.rule import (
    CERTAIN,
    DOUBTED,
    FEW,
    KV_FULL,
    KV_TIGHT,
    LIKELY,
    ONE_STEP,
    OUTWEIGHS,
    POSSIBLE,
    SECONDED,
    SLOW,
    SOME,
    STRONG,
    WEAK,
    gauge_fact,
    heavy_traffic,
    not_told,
    nothing,
    prompts_outweigh,
    waiting_fact,
)
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.host_view import holds_none, rests_for_host
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

EXCHANGE: Final = 0.34
"""Running fell and waiting rose by the same number, to within a third: the same requests changed sides."""

SEVERAL: Final = 2.0
"""Running requests that tell how large one is: a single one may be an exception."""

MINGLED: Final = "how much of the steps new prompts took, beside what was computed again: that is in no counter"

CACHED: Final = 0.2
LOST: Final = 0.5
"""The prefix cache lost something where it held a fifth of the prompts or more, and holds half as much."""


def cache_pressure(evidence: Evidence) -> Finding:
    kv = evidence.kv
    if kv is None:
        return nothing("cache_pressure", unseen=(not_told(evidence, "KV use"),))
    facts = gauge_fact("kv.used", kv, "KV use", "ratio")
    preempted = evidence.preemptions or 0.0
    waiting = evidence.waiting
    queue = waiting is not None and waiting.mean >= SOME
    if kv.high < KV_TIGHT:
        return _roomy(evidence, kv, preempted) or nothing("cache_pressure", f"KV use at most {kv.high:.0%}")
    if holds_none(evidence) is not None:
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but the engine holds no request: an old reading")
    if clients_left(evidence):
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but all clients have left: an old reading")
    if evidence.running is not None and evidence.running.high <= FEW and not queue:
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but nothing runs or waits: an old reading")
    evicted = evicted_prefixes(evidence)
    if evicted is not None and preempted <= 0 and not evidence.frozen:
        new = ("whether the prompts were new ones: what nobody asked for before is not lost",)
        return Finding("cache_pressure", LIKELY + 0.1, "eviction", (*facts, evicted), (), new, Remedy.EVICTION)
    if waiting is not None and not queue and preempted <= 0:
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but nothing waits for memory")
    facts = (
        *facts,
        *gauge_fact("sched.running", evidence.running, "running"),
        *waiting_fact(evidence),
    )
    if preempted > 0:
        says = f"{preempted:.0f} preemptions (counted late, so up to two seconds after it)"
        facts = (*facts, Fact("sched.preemptions", round(preempted, 1), "preemptions", says))
    if evidence.finished is not None:
        done = f"{evidence.finished:.0f} finished"
        facts = (*facts, Fact("sched.finished", round(evidence.finished, 1), "requests", done))
    if at_cap(evidence) and preempted <= 0:
        cap = f"the batch stood at its limit of {evidence.limit:.0f}: who waits is asked for memory only behind that"
        return Finding("cache_pressure", WEAK, "KV full", facts, (cap,))
    if evidence.still >= ONE_STEP and preempted <= 0:
        # A full cache lets a smaller batch step on: what takes no step at all is stuck, or its gauges are old.
        old = "no step was taken: KV use is that of the last one"
        return Finding("cache_pressure", WEAK, "KV full, and no step is taken", facts, unseen=(old,))
    score, detail = _judge(evidence, kv.high, preempted, queue)
    facts = (*facts, *recomputed_fact(evidence))
    if rests_for_host(evidence) and heavy_traffic(evidence) is None:
        idle = ("the device idled although requests ran, while the critical thread did host work",)
        return Finding("cache_pressure", min(score, SECONDED), detail, facts, idle)
    share = memory_share(evidence)
    if share is not None:
        return _weighed(share, score, detail, facts)
    if not prompts_outweigh(evidence):
        return Finding("cache_pressure", score, detail, facts)
    flood = f"new prompts filled the steps: {evidence.prompt_flow or 0.0:.0f} tokens/s"
    if kv.before is not None and kv.before >= KV_FULL:
        score, flood = min(score, DOUBTED), f"{flood}; the cache was as full before"
    return Finding("cache_pressure", min(score, SECONDED), detail, facts, (flood,))


def _weighed(share: Share, score: float, detail: str, facts: tuple[Fact, ...]) -> Finding:
    """With new prompts in the same steps: what is computed again is in no counter, so that shares are estimates."""
    told = share_fact(share)
    if share.middle < HALF:
        more = (f"{told.says}; slower steps cost more",)
        return Finding("cache_pressure", min(score, POSSIBLE), detail, facts, more)
    facts = (*facts, told)
    if share.least < SURE:
        return Finding("cache_pressure", min(score, SECONDED), detail, facts, unseen=(MINGLED,) if share.again else ())
    return Finding("cache_pressure", score, detail, facts)


def recomputes_more(evidence: Evidence) -> bool:
    """Whether preempted requests had more tokens to compute again than new prompts had, as far as can be told."""
    again, new = evidence.recomputed_flow, evidence.prompt_flow
    return again is not None and new is not None and again > 0.0 and again >= new


def recomputed_fact(evidence: Evidence) -> tuple[Fact, ...]:
    """What preempted requests had to compute again, where it can be told and somebody was preempted."""
    again = evidence.recomputed_flow
    if not again:
        return ()
    says = f"about {again:.0f} tokens/s computed again: preempted requests, times what a running one holds"
    return (Fact("sched.preemptions", round(again, 1), "tokens/s", says),)


def _roomy(evidence: Evidence, kv: Gauge, preempted: float) -> Finding | None:
    """Pressure that the KV cache's use does not show: requests that were thrown back are computed again or brought back
    after others have gone, and large ones do not fit into what looks like room."""
    facts = (
        *gauge_fact("kv.used", kv, "KV use", "ratio"),
        *gauge_fact("sched.running", evidence.running, "running"),
        *waiting_fact(evidence),
    )
    again, usual = evidence.recomputed_flow, evidence.decode_before
    if recomputes_more(evidence) and again is not None and usual is not None and again >= usual:
        score = STRONG if again >= OUTWEIGHS * usual and _slowed(evidence) else LIKELY
        return Finding("cache_pressure", score, "recompute after preemption", (*facts, *recomputed_fact(evidence)))
    moved = heavy_traffic(evidence)
    share = share_of_loss(evidence)
    if preempted >= 1.0 and moved is not None and (share is None or share.middle >= HALF):
        told = Fact("sched.preemptions", round(preempted, 1), "preemptions", f"{preempted:.0f} preemptions")
        return Finding("cache_pressure", SECONDED, "swapping", (*facts, told, moved))
    size = _too_large(evidence, kv)
    if size is None or not _exchanged(evidence):
        return None
    score = STRONG if preempted > 0 else LIKELY
    return Finding("cache_pressure", score, "KV full for requests so large", (*facts, size))


def _slowed(evidence: Evidence) -> bool:
    progress = evidence.progress_ratio
    return progress is not None and progress < SLOW


def _too_large(evidence: Evidence, kv: Gauge) -> Fact | None:
    """That a request as large as those which run does not fit any more, as a fact."""
    running = evidence.running
    if running is None or running.last < SEVERAL or 1.0 - kv.last >= kv.last / running.last:
        return None
    says = f"a running request holds {kv.last / running.last:.0%} of the KV cache, and {1.0 - kv.last:.0%} was free"
    return Fact("kv.used", round(kv.last, 4), "ratio", says)


def _judge(evidence: Evidence, kv: float, preempted: float, queue: bool) -> tuple[float, str]:
    if kv < KV_FULL:
        if preempted > 0 and queue:
            return LIKELY, "preemption thrash"
        return (POSSIBLE, "KV nearly full") if queue else (WEAK, "KV nearly full")
    exchanged = _exchanged(evidence)
    if preempted > 0:
        return (CERTAIN if queue else STRONG), "preemption thrash"
    if exchanged:
        return STRONG, "KV full: running fell as waiting rose"
    return (LIKELY, "KV full") if queue else (POSSIBLE, "KV full")


def evicted_prefixes(evidence: Evidence) -> Fact | None:
    """Prompts that used to be found in the cache are computed again, beside a cache that has no room for prefixes."""
    now, before = evidence.hit_ratio, evidence.hit_ratio_before
    if now is None or before is None or before < CACHED or now > LOST * before or not prompts_outweigh(evidence):
        return None
    says = f"the prefix cache held {now:.0%} of the prompts' tokens (before: {before:.0%})"
    return Fact("kv.hits", round(now, 4), "ratio", says)


def _exchanged(evidence: Evidence) -> bool:
    """Running fell and waiting rose alike: works at once, while the preemption counter is up to seconds late."""
    running, waiting = evidence.running, evidence.waiting
    if running is None or waiting is None:
        return False
    fell = max(running.first, running.before or 0.0) - running.low
    rose = waiting.high - min(waiting.first, waiting.before if waiting.before is not None else waiting.first)
    return fell >= 1.0 and rose >= 1.0 and abs(fell - rose) <= EXCHANGE * max(fell, rose)
