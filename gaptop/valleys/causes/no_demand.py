"""no_demand: nothing to run, and the front end has nothing in hand either. Not a fault."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.demand import MAY_WAIT, clients_left, gone, may_be_held, nobody_asks
from gaptop.valleys.causes.rule import (
    EACH_FAST,
    FEW,
    LIKELY,
    POSSIBLE,
    SOME,
    STRONG,
    UNTOUCHED,
    WEAK,
    by_frames,
    each_ratio,
    each_says,
    gauge_fact,
    not_told,
    nothing,
    quiet,
    steps_hold_less,
    waiting_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather_frames import WAKE_UP
from gaptop.valleys.host_view import BUSY, critical, front_end, holds_none, unsure_front
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

LOW_BATCH: Final = 0.5
"""A client limits the server where fewer than half of the usual requests run, each as fast as ever."""

READ_TWICE: Final = 1.0
"""Seconds: over less than two readings a rate is only an average."""

SPUN: Final = 0.2
"""Busy-waiting threads are worth a word from here on: somebody may have seen their cores at work."""

SLOW_ANSWER: Final = 0.2
"""Seconds: an idle front end answers a scrape in milliseconds, one that is stuck in hundreds of them."""


def no_demand(evidence: Evidence) -> Finding:
    """Running and waiting near zero, or the engine seen to await requests, *and* the front end idle; with the front end
    unseen only less surely."""
    if evidence.sleeping is not None and evidence.sleeping >= 0.5 and not by_frames(evidence, WAKE_UP):
        fact = Fact("sched.sleeping", evidence.sleeping, "ratio", "the engine was put to sleep or paused on purpose")
        return Finding("no_demand", STRONG, "asleep on purpose", (fact,), remedy=Remedy.ASLEEP)
    if evidence.stopped:
        return nothing("no_demand", f"a process of the server was stopped: {', '.join(evidence.stopped)}")
    empty, awaits = quiet(evidence), holds_none(evidence)
    # The edges of a valley hold some tokens; after a time of hardly any these look like "as ever".
    progress = evidence.progress_ratio if awaits is None else None
    if progress is not None and progress >= UNTOUCHED and evidence.length >= READ_TWICE and evidence.decode_before:
        return nothing("no_demand", f"tokens went on at {progress:.0%} of the usual: there was work")
    if awaits is not None and evidence.device_idle is False:
        busy = (f"the device read busy {evidence.busy:.0%}, whoever works on it",)
        return Finding("no_demand", POSSIBLE, "queue empty", _awaiting(evidence, awaits), busy)
    if awaits is not None:
        return _empty(evidence, _awaiting(evidence, awaits))
    if clients_left(evidence) and evidence.device_idle is not False:
        return Finding("no_demand", LIKELY + 0.05, "queue empty", _left(evidence), unseen=(gone(evidence),))
    if empty is None:
        return nothing("no_demand", unseen=(not_told(evidence, "requests running and waiting"),))
    facts = (
        *gauge_fact("sched.running", evidence.running, "running"),
        *waiting_fact(evidence),
    )
    return _empty(evidence, facts) if empty else _client_limited(evidence, facts)


def _awaiting(evidence: Evidence, awaits: float) -> tuple[Fact, ...]:
    """The engine's own wait as a fact, and its gauges, which may be as old as its last step."""
    fact = Fact("host.thread_activity", round(awaits, 4), "ratio", f"the engine awaited requests {awaits:.0%}")
    return (fact, *_last_known(evidence))


def _left(evidence: Evidence) -> tuple[Fact, ...]:
    """That everybody has hung up as a fact, and the gauges that nobody has refreshed since."""
    asked = gauge_fact("sched.in_flight", evidence.in_flight, "HTTP requests open")
    asked = asked or gauge_fact("host.connections", evidence.connections, "connections", "connections")
    return (*asked, *_last_known(evidence))


def _last_known(evidence: Evidence) -> tuple[Fact, ...]:
    running = evidence.running
    if running is None or running.mean <= FEW:
        return gauge_fact("sched.running", running, "running")
    says = f"running {running.mean:.0f} as of its last step"
    return (Fact("sched.running", round(running.mean, 4), "requests", says),)


def _empty(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding:
    facts = (*facts, *_spinning(evidence))
    if nobody_asks(evidence):
        asked = gauge_fact("sched.in_flight", evidence.in_flight, "HTTP requests open")
        asked = asked or gauge_fact("host.connections", evidence.connections, "connections", "connections")
        return Finding("no_demand", STRONG + 0.05, "queue empty", (*facts, *asked))
    front = front_end(evidence)
    in_flight = evidence.in_flight
    open_requests = evidence.connections
    if in_flight is not None and in_flight.mean > 1 - FEW:
        return Finding(
            "no_demand", WEAK, "queue empty", facts, (f"{in_flight.mean:.0f} HTTP requests were open in the front end",)
        )
    if evidence.unread is not None and evidence.unread.mean >= SOME:
        unread = f"{evidence.unread.mean:.0f} connections waited for the front end to read them"
        return Finding("no_demand", WEAK, "queue empty", facts, (unread,))
    if may_be_held(evidence, front):
        count = 0.0 if open_requests is None else open_requests.mean
        kept = f"{count:.0f} connections were open: keep-alive, or requests held by a front end that nobody saw"
        return Finding("no_demand", WEAK, "queue empty", facts, (kept,))
    main = critical(evidence)
    # A sync with a device that works is over when that is.
    sync = (main.sync or 0.0) - (evidence.busy or 0.0)
    work = max(main.work or 0.0, main.on_worker or 0.0, sync)
    if work >= BUSY and holds_none(evidence) is None:
        # vLLM tells of a step when it ends: during the first one after an idle time its gauges still read 0.
        engine = f"the engine's own thread worked or waited for a step {work:.0%}, so a first step was under way"
        return Finding("no_demand", WEAK, "queue empty", facts, (engine,))
    if front.busy is not None and front.busy >= BUSY:
        if front.activity == "other" and front.on_cpu is None:
            return Finding("no_demand", POSSIBLE, "queue empty", facts, unseen=(MAY_WAIT, unsure_front(evidence)))
        busy = f"the front end worked {front.busy:.0%} of the time ({front.activity or 'on CPU'})"
        return Finding("no_demand", WEAK, "queue empty", facts, (busy,))
    if evidence.scrape_latency is not None and evidence.scrape_latency >= SLOW_ANSWER:
        usual = evidence.scrape_before or 0.0
        if evidence.scrape_latency >= 5 * usual:
            slow = f"the front end took {evidence.scrape_latency:.2f} s to answer a scrape (before: {usual:.3f} s)"
            return Finding("no_demand", POSSIBLE, "queue empty", facts, (slow,))
    unseen: tuple[str, ...] = ()
    score = STRONG + 0.05
    if front.busy is not None:
        seen = Fact("host.thread_activity", round(front.busy, 4), "ratio", f"front end busy {front.busy:.0%}")
        facts = (*facts, seen)
    elif in_flight is not None:
        facts = (*facts, *gauge_fact("sched.in_flight", in_flight, "HTTP requests open"))
    else:
        score = LIKELY + 0.05
        unseen = ("front end not seen: its threads, or open requests, would tell an empty queue from a blocked one",)
    if open_requests is not None:
        facts = (*facts, *gauge_fact("host.connections", open_requests, "connections", "connections"))
        held = open_requests.mean >= SOME and open_requests.mean >= (open_requests.before or 0.0) - SOME
        if in_flight is None and held:
            score = min(score, LIKELY)
            open_says = f"{open_requests.mean:.0f} connections are open: keep-alive, or requests held by the front end"
            unseen = (open_says, *unseen)
    may_hold = (0.0 if in_flight is None else in_flight.high) + (0.0 if open_requests is None else open_requests.high)
    if may_hold >= 1.0 and (doing := unsure_front(evidence)):
        score, unseen = min(score, LIKELY), (doing, *unseen)
    return Finding("no_demand", score, "queue empty", facts, unseen=unseen)


def _spinning(evidence: Evidence) -> tuple[Fact, ...]:
    """That a CPU device's threads were busy, and only with waiting."""
    if evidence.spinning is None or evidence.spinning < SPUN:
        return ()
    says = f"the compute threads only busy-waited, {evidence.spinning:.0%} of their time"
    return (Fact("device.spinning", round(evidence.spinning, 4), "ratio", says),)


def _client_limited(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding:
    running, waiting = evidence.running, evidence.waiting
    if running is None or waiting is None:
        return nothing("no_demand", unseen=(not_told(evidence, "requests running and waiting"),))
    if waiting.mean > FEW:
        return nothing("no_demand", f"{running.mean:.1f} requests ran and {waiting.mean:.1f} waited")
    usual, rate = running.before, evidence.decode_rate or 0.0
    less, each = steps_hold_less(evidence), each_ratio(evidence)
    smaller = usual is not None and running.mean < UNTOUCHED * usual and less is not None and less < EACH_FAST
    if usual is None or (running.mean > LOW_BATCH * usual and not smaller):
        return nothing("no_demand", f"{running.mean:.1f} requests ran")
    if each is None:
        return nothing("no_demand", f"{running.mean:.1f} requests ran", unseen=("tokens not seen",))
    if each < EACH_FAST and not smaller:
        return nothing("no_demand", f"{running.mean:.1f} requests ran, each at {each_says(each)}")
    front = front_end(evidence)
    if front.busy is not None and front.busy >= BUSY:
        return nothing("no_demand", f"the front end worked {front.busy:.0%} of the time")
    if may_be_held(evidence, front) and evidence.connections is not None:
        kept = f"{evidence.connections.mean:.0f} connections were open: requests may be held by an unseen front end"
        return Finding("no_demand", WEAK, "client-limited", facts, (kept,), remedy=Remedy.CLIENT_LIMITED)
    says = f"each request at {each_says(each)}"
    if smaller:
        says = f"steps as fast as ever, with {less:.0%} of their usual tokens"
    fact = Fact("tokens.decode", round(rate, 4), "tokens/s", says)
    unseen = () if front.busy is not None else ("front end not seen: it might hold requests back",)
    # From metrics alone a client that is slow and a front end that is blocked look the same.
    told = LIKELY - 0.1 if evidence.in_flight is not None else POSSIBLE
    score = LIKELY + 0.1 if front.busy is not None else told
    remedy = Remedy.CLIENT_LIMITED
    return Finding("no_demand", score, "client-limited", (*facts, fact), unseen=unseen, remedy=remedy)
