"""Demand that no gauge shows: requests that the front end holds, or that nobody has made."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import FEW, LIKELY, POSSIBLE, SOME, STRONG, WEAK, gauge_fact, quiet, waiting_fact
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, FrontView, critical, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

SCRAPE_SLOW: Final = 0.2
"""Seconds: an event loop that answers in milliseconds otherwise is saturated when it takes this long."""

ASKED_TWICE: Final = 2.0
"""Seconds: connections are counted once a second, and one that was counted once may have come and gone."""

MAY_WAIT: Final = "run states not seen: unrecognised code may work or wait"

NAMES: Final = {
    "schedule": "scheduling",
    "prepare_batch": "batch preparation",
    "launch": "launching kernels",
    "sample": "sampling",
    "detokenize": "detokenise",
    "tokenize": "front end (tokenise)",
    "grammar": "grammar",
    "multimodal": "front end (images)",
    "serialize": "front end (serialise)",
    "http": "front end (HTTP)",
    "gc": "GC",
    "log": "logging",
}
"""Activities in the words of a sub-cause."""


def nobody_asks(evidence: Evidence) -> bool:
    """Whether nobody can have waited for an answer: then an engine that holds no request has none, whatever its threads
    do. Its gauges must say so too: a server may also be fed from inside its own process."""
    if evidence.length < ASKED_TWICE or (evidence.unread is not None and evidence.unread.high > 0.0):
        return False
    counted = evidence.in_flight or evidence.connections
    return counted is not None and counted.high == 0.0 and quiet(evidence) is True


def clients_left(evidence: Evidence) -> bool:
    """Whether everybody hung up, while no step has refreshed the gauges that still claim requests: no step was taken
    for long, or the device rested and nobody at all was connected. Not where the engine's own thread was seen: it tells
    better."""
    counted = evidence.in_flight or evidence.connections
    if counted is None or critical(evidence).awaits is not None or (counted.before or 0.0) < SOME:
        return False
    if evidence.still >= ASKED_TWICE:
        return counted.low == 0.0 and counted.mean <= FEW
    return evidence.device_idle is True and counted.high == 0.0


def gone(evidence: Evidence) -> str:
    """What stays unsure where the clients have left."""
    front = "threads" if not evidence.threads else "stacks"
    return f"{front} not seen: whether the engine still works on requests whose clients have left"


def may_be_held(evidence: Evidence, front: FrontView) -> bool:
    """More connections than requests in the engine, and nothing to tell keep-alive from requests in the front end's
    hands: nobody saw its threads, the requests open in it, or whether it leaves any unread."""
    told = (front.busy, evidence.in_flight, evidence.unread)
    if evidence.connections is None or any(item is not None for item in told):
        return False
    engine = 0.0 if holds_none(evidence) is not None else evidence.demand
    return engine is not None and evidence.connections.mean >= engine + 1 - FEW


def hidden_demand(evidence: Evidence, front: FrontView) -> Finding | None:
    """The engine's queue is empty because the front end is blocked: the demand is in no gauge."""
    running = evidence.running
    if holds_none(evidence) is None:
        if running is None or (evidence.waiting is not None and evidence.waiting.mean > FEW):
            return None
        if running.before is not None and running.mean > 0.5 * max(running.before, 1.0):
            return None
    facts = (
        *gauge_fact("sched.running", running, "running"),
        *waiting_fact(evidence),
        *gauge_fact("sched.in_flight", evidence.in_flight, "HTTP requests open"),
        *gauge_fact("host.connections", evidence.connections, "connections", "connections"),
        *gauge_fact("host.unread", evidence.unread, "connections not read yet", "connections"),
    )
    unseen = front_unseen(evidence, front)
    if front.busy is not None and front.busy >= BUSY:
        activity = front.activity if front.activity not in ("", "other") else ""
        says = f"front-end thread {front.name or '?'} worked {front.busy:.0%} of the time ({activity or 'on CPU'})"
        detail = NAMES.get(activity, "front end")
        detail = detail if detail.startswith("front end") else f"front end ({activity})"
        if not activity and front.code:
            detail = f"front end: unrecognised code: {front.code}"
        fact = Fact("host.thread_activity", round(front.busy, 4), "ratio", says)
        score = STRONG if activity else LIKELY
        if front.activity == "other" and front.on_cpu is None:
            score, unseen = POSSIBLE + 0.05, (MAY_WAIT, *unseen)
        return Finding("host_starvation", score, detail, (fact, *facts), unseen=unseen, remedy=Remedy.FRONT_END)
    if evidence.unread is not None and evidence.unread.mean >= SOME:
        return Finding("host_starvation", LIKELY + 0.1, "front end", facts, (), unseen, Remedy.FRONT_END)
    slow = evidence.scrape_latency
    if slow is not None and slow >= SCRAPE_SLOW and slow >= 5 * (evidence.scrape_before or 0.0):
        fact = Fact("latency.scrape", round(slow, 4), "seconds", f"the front end took {slow:.2f} s to answer a scrape")
        return Finding("host_starvation", POSSIBLE + 0.05, "front end", (fact, *facts), (), unseen, Remedy.FRONT_END)
    held = 0.0 if running is None or holds_none(evidence) is not None else running.mean
    if evidence.in_flight is not None and evidence.in_flight.mean >= held + 1 - FEW:
        return Finding("host_starvation", LIKELY, "front end", facts, (), unseen, Remedy.FRONT_END)
    if may_be_held(evidence, front):
        return Finding("host_starvation", WEAK + 0.1, "front end", facts, (), unseen, Remedy.FRONT_END)
    return None


def front_unseen(evidence: Evidence, front: FrontView) -> tuple[str, ...]:
    """What of the threads nobody saw, so that a front end or an engine may have done something else."""
    unseen = []
    if not evidence.stacks_seen:
        unseen.append("threads not seen" if not evidence.states_seen else "stacks not seen: work or busy-wait")
    if front.busy is None:
        unseen.append("front end not seen")
    return tuple(unseen)
