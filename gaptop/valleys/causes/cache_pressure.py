"""cache_pressure: no KV blocks left, so the batch shrinks while the queue grows."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    CERTAIN,
    FEW,
    KV_FULL,
    KV_TIGHT,
    LIKELY,
    POSSIBLE,
    SOME,
    STRONG,
    WEAK,
    gauge_fact,
    nothing,
    waiting_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import holds_none
from gaptop.valleys.model import Fact, Finding

EXCHANGE: Final = 0.34
"""Running fell and waiting rose by the same number, to within a third: the same requests changed sides."""


def cache_pressure(evidence: Evidence) -> Finding:
    kv = evidence.kv
    if kv is None:
        return nothing("cache_pressure", unseen=("KV use not seen",))
    facts = gauge_fact("kv.used", kv, "KV use", "ratio")
    preempted = evidence.preemptions or 0.0
    waiting = evidence.waiting
    queue = waiting is not None and waiting.mean >= SOME
    if kv.high < KV_TIGHT:
        return nothing("cache_pressure", f"KV use at most {kv.high:.0%}")
    if holds_none(evidence) is not None:
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but the engine holds no request: an old reading")
    if evidence.running is not None and evidence.running.high <= FEW and not queue:
        return nothing("cache_pressure", f"KV use reads {kv.high:.0%}, but nothing runs or waits: an old reading")
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
    return Finding("cache_pressure", *_judge(evidence, kv.high, preempted, queue), facts=facts)


def _judge(evidence: Evidence, kv: float, preempted: float, queue: bool) -> tuple[float, str]:
    if evidence.frozen and evidence.length >= 2.0 and preempted <= 0:
        return POSSIBLE, "KV full, and no step is taken"
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


def _exchanged(evidence: Evidence) -> bool:
    """Running fell and waiting rose alike: works at once, while the preemption counter is up to seconds late."""
    running, waiting = evidence.running, evidence.waiting
    if running is None or waiting is None:
        return False
    fell = max(running.first, running.before or 0.0) - running.low
    rose = waiting.high - min(waiting.first, waiting.before if waiting.before is not None else waiting.first)
    return fell >= 1.0 and rose >= 1.0 and abs(fell - rose) <= EXCHANGE * max(fell, rose)
