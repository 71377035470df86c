"""admission_stall: requests wait although there is memory for them, and few tokens are scheduled."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.demand import clients_left
from gaptop.valleys.causes.rule import (
    EACH_FAST,
    FEW,
    HINTED,
    KV_FULL,
    KV_TIGHT,
    LIKELY,
    ONE_STEP,
    POSSIBLE,
    SLOW,
    SOME,
    STRONG,
    UNTOUCHED,
    WEAK,
    each_ratio,
    gauge_fact,
    in_first_step,
    not_told,
    nothing,
)
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.host_view import EMPTY, critical, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

PINNED: Final = 0.02
"""A batch at its cap does not move: two per cent of the limit is less than one request."""

HOST_SECONDS: Final = 10.0
"""Without stacks a scheduler that admits nobody looks like one whose thread is held up; that rarely lasts this long.
Shorter than this nobody should be sent to restart it: most such stalls end by themselves."""

REST: Final = 0.1
"""Of the usual batch, on average: what was read before it had run dry."""

STEPS_WITH_WORK: Final = frozenset({"vllm"})
"""Engines whose thread turns in its step only while it holds requests, and awaits them at a place of its own otherwise
(vLLM: core.py, _process_engine_step and _process_input_queue)."""


def at_cap(evidence: Evidence) -> bool:
    """Whether the batch stood at the sequence limit all the time: a scheduler looks at that before it asks for memory,
    so that it is what keeps the next one out however full the KV cache is."""
    running, limit = evidence.running, evidence.limit
    return running is not None and limit is not None and running.low >= limit * (1 - PINNED)


def deferred_hold_cap(evidence: Evidence) -> bool:
    """Whether running and deferred requests together came to leave no place under the limit while others wait."""
    running, waiting, deferred, limit = evidence.running, evidence.waiting, evidence.deferred, evidence.limit
    if running is None or waiting is None or deferred is None or limit is None or deferred.mean < SOME:
        return False
    others = _beside(waiting, deferred)
    places = limit - max(running.mean + deferred.mean, running.last + deferred.last)
    return others >= SOME and places < 1.0 and running.low < limit * (1 - PINNED)


def _beside(waiting: Gauge, deferred: Gauge) -> float:
    """Requests that wait and were not deferred, on average or at the end."""
    return max(waiting.mean - deferred.mean, waiting.last - deferred.last)


def admission_stall(evidence: Evidence) -> Finding:
    running, waiting = evidence.running, evidence.waiting
    if waiting is None or running is None:
        return _by_thread(evidence)
    if waiting.mean < SOME:
        return nothing("admission_stall", f"{waiting.mean:.1f} requests waited")
    awaits = holds_none(evidence)
    if awaits is not None:
        return nothing("admission_stall", f"the engine itself awaited requests {awaits:.0%}: its gauges were old")
    if clients_left(evidence):
        return nothing("admission_stall", "all clients have left, and no step has refreshed the gauges since")
    facts = (
        *gauge_fact("sched.waiting", waiting, "waiting"),
        *gauge_fact("sched.running", running, "running"),
        *gauge_fact("kv.used", evidence.kv, "KV use", "ratio"),
    )
    unseen: tuple[str, ...] = ()
    ceiling = STRONG
    if evidence.kv is None:
        unseen = ("KV use not seen: memory may have been the reason",)
        ceiling = LIKELY
    elif at_cap(evidence) and not evidence.preemptions:
        ceiling = LIKELY
    elif evidence.kv.high >= KV_FULL:
        return nothing("admission_stall", f"KV use reached {evidence.kv.high:.0%}: memory was the limit")
    elif evidence.kv.high >= KV_TIGHT:
        ceiling = POSSIBLE
    elif (held := _held_by_one(running, evidence.kv)) is not None and 1.0 - evidence.kv.high < held:
        unseen = (f"whether the next request fits: a running one holds {held:.0%} of the KV",)
        ceiling = POSSIBLE
    if evidence.deferred is not None and evidence.deferred.mean >= SOME:
        return _passed_over(evidence, waiting, evidence.deferred, facts, unseen, ceiling)
    if evidence.limit is not None:
        facts = (*facts, Fact("sched.limit", evidence.limit, "requests", f"limit {evidence.limit:.0f}"))
    if in_first_step(evidence):
        first = ("the device was at work, and prompts were booked right after: the step that admitted had not ended",)
        return Finding("admission_stall", WEAK, "not admitted", facts, first, unseen, Remedy.UNDER_LIMIT)
    if _drained(running):
        score = ceiling if evidence.length >= ONE_STEP else min(ceiling, LIKELY)
        if evidence.frozen and not evidence.stacks_seen and evidence.length < HOST_SECONDS:
            unseen = (*unseen, "threads not seen: the scheduler's thread may be held up itself")
            score = min(score, POSSIBLE)
        remedy = Remedy.STUCK if evidence.length >= HOST_SECONDS else Remedy.STUCK_BRIEFLY
        detail = "stuck: nothing runs although requests wait"
        return Finding("admission_stall", score, detail, facts, unseen=unseen, remedy=remedy)
    return _with_batch(evidence, running, facts, unseen, ceiling)


def _held_by_one(running: Gauge, kv: Gauge) -> float | None:
    """Share of the KV cache that a running request holds, on average or at the end; None where none runs."""
    pairs = ((kv.high, running.mean), (kv.last, running.last))
    return max((used / count for used, count in pairs if count >= SOME), default=None)


def _by_thread(evidence: Evidence) -> Finding:
    """Without the gauges: an engine that turns, takes no step and does not await requests either holds some that it may
    not run."""
    main, blind = critical(evidence), not_told(evidence, "requests running and waiting")
    if evidence.engine not in STEPS_WITH_WORK or main.waits is None or main.awaits is None:
        return nothing("admission_stall", unseen=(blind,))
    turned, progress = main.waits - main.awaits, evidence.progress_ratio
    if turned < EMPTY or evidence.device_idle is False or (progress is not None and progress >= SLOW):
        return nothing("admission_stall", unseen=(blind,))
    says = f"the engine turned without a step to take {turned:.0%}, and awaited requests only {main.awaits:.0%}"
    fact = Fact("host.thread_activity", round(turned, 4), "ratio", says)
    detail = "stuck: nothing runs although the engine holds requests"
    unseen = (blind, "why it may not run them: a cap, memory, a transfer")
    return Finding("admission_stall", HINTED, detail, (fact,), unseen=unseen, remedy=Remedy.STUCK_BRIEFLY)


def _drained(running: Gauge) -> bool:
    """Whether nothing runs; gauges that move rarely still tell of the last steps where a valley begins."""
    if running.mean <= FEW:
        return True
    return running.last <= FEW and running.before is not None and running.mean <= REST * running.before


def _as_ever(running: Gauge, waiting: Gauge | None) -> bool:
    """Whether batch and queue are no different from what they were: clients that only ask again when they are answered
    always leave the same few waiting at a cap."""
    if waiting is None or waiting.before is None or running.before is None:
        return False
    return running.mean >= UNTOUCHED * running.before and waiting.mean <= waiting.before / UNTOUCHED


def _passed_over(
    evidence: Evidence,
    waiting: Gauge,
    deferred: Gauge,
    facts: tuple[Fact, ...],
    unseen: tuple[str, ...],
    ceiling: float,
) -> Finding:
    """The scheduler passes requests over. Where those count against the cap, they keep the others out as well."""
    limit = evidence.limit
    says = f"{deferred.mean:.0f} deferred requests waited"
    facts = (*facts, Fact("sched.waiting_by_reason", round(deferred.mean, 3), "requests", says))
    if limit is not None and deferred_hold_cap(evidence):
        others = _beside(waiting, deferred)
        says = f"running and deferred together reach the limit of {limit:.0f}, and {others:.0f} others wait"
        facts = (*facts, Fact("sched.limit", limit, "requests", says))
        detail = "deferred requests hold the cap"
        return Finding("admission_stall", ceiling, detail, facts, unseen=unseen, remedy=Remedy.DEFERRED)
    return Finding("admission_stall", POSSIBLE, "deferred", facts, unseen=unseen, remedy=Remedy.DEFERRED)


def _with_batch(
    evidence: Evidence, running: Gauge, facts: tuple[Fact, ...], unseen: tuple[str, ...], ceiling: float
) -> Finding:
    """Some requests run. At the cap the cap is the reason; under it something else keeps the others out."""
    limit, progress = evidence.limit, evidence.progress_ratio
    against: tuple[str, ...] = ()
    if evidence.device_idle is False and progress is not None and progress >= UNTOUCHED:
        against = ("the device worked on: a full queue in front of a busy device is no valley",)
        return Finding("admission_stall", WEAK, "sequence cap", facts, against, unseen)
    if at_cap(evidence):
        score = LIKELY
        if evidence.frozen:
            score, against = WEAK, ("no step was taken at all: the cap explains the queue, not the standstill",)
        elif evidence.device_idle and evidence.tokens_every is not None and evidence.length < evidence.tokens_every:
            score, against = WEAK, ("shorter than the time between two readings: the full batch may be an old one",)
        elif _as_ever(running, evidence.waiting) and evidence.device_idle is False:
            score, against = WEAK, ("as many ran and waited before, while all went well",)
        elif progress is not None and progress < SLOW:
            score, against = POSSIBLE, (f"the batch was full, yet progress fell to {progress:.0%} of the usual",)
        return Finding("admission_stall", min(score, ceiling), "sequence cap", facts, against, unseen)
    if limit is None:
        unseen = (*unseen, "sequence limit not seen")
        if running.high - running.low < SOME and running.before is not None and running.mean >= running.before - SOME:
            return Finding("admission_stall", POSSIBLE, "sequence cap (limit unknown)", facts, against, unseen)
    if evidence.frozen:
        none = ("no step was taken at all, so none could admit",)
        return Finding("admission_stall", WEAK, "not admitted", facts, none, unseen, Remedy.UNDER_LIMIT)
    if running.before is not None and running.last < 0.5 * running.before and running.last <= running.first:
        detail = "batch boundary (static membership)"
        each = each_ratio(evidence)
        if each is not None and each < EACH_FAST:
            against = (f"each request at {each:.0%} of its usual speed: a batch that drains is slowed by nothing",)
            ceiling = min(ceiling, LIKELY - 0.1)
        return Finding("admission_stall", ceiling, detail, facts, against, unseen, Remedy.BATCH_BOUNDARY)
    score = min(ceiling, LIKELY if limit is not None else POSSIBLE)
    detail = "stuck: under the limit, not admitted"
    if _as_ever(running, evidence.waiting):
        against = ("as many ran and waited before, while all went well",)
        return Finding("admission_stall", WEAK, detail, facts, against, unseen, Remedy.UNDER_LIMIT)
    each = each_ratio(evidence)
    if each is not None and each < SLOW:
        against = (f"each running request at {each:.0%} of its usual speed: keeping others out slows nobody who runs",)
        score = min(score, POSSIBLE)
    return Finding("admission_stall", score, detail, facts, against, unseen, Remedy.UNDER_LIMIT)
