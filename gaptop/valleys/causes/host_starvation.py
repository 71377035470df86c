"""host_starvation: there is work and memory for it, and the host does not get it to the device."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    CERTAIN,
    FEW,
    KV_FULL,
    LIKELY,
    POSSIBLE,
    SLOW,
    SOME,
    STRONG,
    UNTOUCHED,
    WEAK,
    WORKER_UNSEEN,
    gauge_fact,
    nothing,
    quiet,
    rate_fact,
    waiting_fact,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, ON_CPU, CriticalView, FrontView, critical, front_end, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

WANTS_CPU: Final = 0.3
"""Waiting for a core for a third of the time: more than an ordinary neighbour takes."""

THROTTLED: Final = 0.2
"""Held back by the CPU quota for a fifth of the time."""

SCRAPE_SLOW: Final = 0.2
"""Seconds: an event loop that answers in milliseconds otherwise is saturated when it takes this long."""

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

REMEDIES: Final = {
    "gc": Remedy.GC,
    "grammar": Remedy.GRAMMAR,
    "log": Remedy.LOGGING,
    "tokenize": Remedy.FRONT_END,
    "multimodal": Remedy.FRONT_END,
    "serialize": Remedy.FRONT_END,
    "http": Remedy.FRONT_END,
    "other": Remedy.UNRECOGNISED,
}


def host_starvation(evidence: Evidence) -> Finding:
    if evidence.stopped:
        return _stopped(evidence)
    front, main = front_end(evidence), critical(evidence)
    hidden = _hidden_demand(evidence, front)
    if hidden is not None:
        return hidden
    empty = True if holds_none(evidence) is not None else quiet(evidence)
    if empty and (main.work is None or main.work < BUSY):
        return nothing("host_starvation", "nothing ran or waited", unseen=_unseen(evidence, front))
    if evidence.kv is not None and evidence.kv.high >= KV_FULL and evidence.waiting and evidence.waiting.mean >= SOME:
        return nothing("host_starvation", f"KV use reached {evidence.kv.high:.0%} while requests waited")
    facts = (
        *gauge_fact("sched.running", evidence.running, "running"),
        *waiting_fact(evidence),
        *rate_fact("step.count", evidence.step_rate, evidence.step_before, "steps", "steps/s"),
    )
    found = [
        item
        for item in (_throttled(evidence, facts), _contended(main, facts), _working(evidence, main, facts))
        if item is not None
    ]
    if found:
        return max(found, key=lambda item: item.score)
    if evidence.stacks_seen and main.work is not None:
        if main.worker_unseen:
            return nothing("host_starvation", unseen=(WORKER_UNSEEN,))
        waits = f", the engine waiting or polling {main.waits:.0%}" if main.waits else ""
        return nothing("host_starvation", f"the critical thread did host work only {main.work:.0%} of the time{waits}")
    return _without_stacks(evidence, main, facts, empty)


def _stopped(evidence: Evidence) -> Finding:
    roles = ", ".join(evidence.stopped)
    fact = Fact("host.stopped", 1.0, "ratio", f"process stopped (SIGSTOP or a debugger): {roles}")
    front = bool({"api", "server"} & set(evidence.stopped))
    detail, remedy = ("front end stopped", Remedy.FRONT_STOPPED) if front else (f"stopped: {roles}", Remedy.STOPPED)
    return Finding("host_starvation", CERTAIN, detail, (fact,), remedy=remedy)


def _hidden_demand(evidence: Evidence, front: FrontView) -> Finding | None:
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
    )
    if front.busy is not None and front.busy >= BUSY:
        activity = front.activity if front.activity not in ("", "other") else ""
        says = f"front-end thread {front.name or '?'} worked {front.busy:.0%} of the time ({activity or 'on CPU'})"
        detail = NAMES.get(activity, "front end")
        detail = detail if detail.startswith("front end") else f"front end ({activity})"
        fact = Fact("host.thread_activity", round(front.busy, 4), "ratio", says)
        score = STRONG if activity else LIKELY
        return Finding("host_starvation", score, detail, (fact, *facts), remedy=Remedy.FRONT_END)
    slow = evidence.scrape_latency
    if slow is not None and slow >= SCRAPE_SLOW and slow >= 5 * (evidence.scrape_before or 0.0):
        fact = Fact("latency.scrape", round(slow, 4), "seconds", f"the front end took {slow:.2f} s to answer a scrape")
        unseen = _unseen(evidence, front)
        return Finding("host_starvation", POSSIBLE + 0.05, "front end", (fact, *facts), (), unseen, Remedy.FRONT_END)
    held = 0.0 if running is None or holds_none(evidence) is not None else running.mean
    if evidence.in_flight is not None and evidence.in_flight.mean >= held + 1 - FEW:
        return Finding("host_starvation", LIKELY, "front end", facts, (), _unseen(evidence, front), Remedy.FRONT_END)
    return None


def _throttled(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding | None:
    share = evidence.throttled_share
    if share is None or share < THROTTLED:
        return None
    says = f"the cgroup was held back by its CPU quota for {share:.2f} s a second"
    fact = Fact("host.throttled", round(share, 4), "ratio", says)
    return Finding("host_starvation", STRONG + 0.03, "cgroup throttling", (fact, *facts), remedy=Remedy.THROTTLING)


def _contended(main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    if main.wants_cpu is None or main.wants_cpu < WANTS_CPU:
        return None
    says = f"the critical thread waited for a core {main.wants_cpu:.0%} of the time"
    fact = Fact("host.runqueue_wait", round(main.wants_cpu, 4), "ratio", says)
    return Finding("host_starvation", STRONG, "CPU contention", (fact, *facts), remedy=Remedy.CONTENTION)


def _working(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    if main.work is None or main.work < BUSY:
        return _strange(evidence, main, facts)
    name = NAMES.get(main.work_activity, main.work_activity)
    if main.work_activity == "other":
        name = _code(main)
    remedy = REMEDIES.get(main.work_activity, Remedy.USUAL)
    says = f"the critical thread did host work {main.work:.0%} of the time, mostly {name}"
    fact = Fact("host.thread_activity", round(main.work, 4), "ratio", says)
    score = min(CERTAIN, LIKELY + 0.3 * main.work)
    if evidence.device_idle is False:
        busy = (f"the device was busy {evidence.busy:.0%}",)
        # On a CPU server launching *is* the computing: a busy device with a launching host is no starvation.
        score = WEAK if main.work_activity == "launch" else min(score, LIKELY)
        return Finding("host_starvation", score, name, (fact, *facts), busy, remedy=remedy)
    if main.work_activity == "launch" and main.on_cpu is not None and main.on_cpu < BUSY:
        blocked = (f"the launching thread was on a core only {main.on_cpu:.0%} of the time",)
        return Finding("host_starvation", POSSIBLE, name, (fact, *facts), blocked)
    return Finding("host_starvation", score, name, (fact, *facts), remedy=remedy)


def _code(main: CriticalView) -> str:
    frame = "" if main.thread is None else main.thread.unrecognised
    return f"unrecognised code: {frame}" if frame else "unrecognised code"


def _strange(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    """Code that no rule knows, and nothing says whether it computes or waits there."""
    if main.unrecognised < BUSY or evidence.device_idle is False:
        return None
    says = f"the critical thread was in code that no rule knows {main.unrecognised:.0%} of the time"
    fact = Fact("host.thread_activity", round(main.unrecognised, 4), "ratio", says)
    unseen = ("run states not seen: unrecognised code may work or wait",)
    return Finding("host_starvation", POSSIBLE, _code(main), (fact, *facts), (), unseen, Remedy.UNRECOGNISED)


def _without_stacks(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...], empty: bool | None) -> Finding:
    """A core at 100 % may be a busy-wait: without stacks this cannot be proved."""
    unseen = _unseen(evidence, front_end(evidence))
    if empty is None:
        return nothing("host_starvation", unseen=unseen)
    if evidence.device_idle is False:
        return nothing("host_starvation", f"the device was busy {evidence.busy:.0%}", unseen=unseen)
    if evidence.progress_ratio is not None and evidence.progress_ratio >= UNTOUCHED:
        return nothing("host_starvation", f"progress went on at {evidence.progress_ratio:.0%}", unseen=unseen)
    if (evidence.demand or 0.0) < SOME:
        return Finding("host_starvation", WEAK, "", facts, unseen=unseen)
    if main.on_cpu is not None:
        fact = Fact("host.oncpu", round(main.on_cpu, 4), "ratio", f"critical thread on a core {main.on_cpu:.0%}")
        before = main.thread.on_cpu_before if main.thread is not None else None
        if main.on_cpu >= ON_CPU and before is not None and before < ON_CPU:
            return Finding("host_starvation", LIKELY, "critical thread on CPU", (fact, *facts), unseen=unseen)
        if main.on_cpu >= ON_CPU:
            return Finding("host_starvation", POSSIBLE, "critical thread on CPU", (fact, *facts), unseen=unseen)
        if main.on_cpu < FEW:
            return nothing("host_starvation", f"critical thread on a core only {main.on_cpu:.0%} of the time")
        facts = (fact, *facts)
    slowed = evidence.progress_ratio is not None and evidence.progress_ratio < SLOW
    score = POSSIBLE if slowed and evidence.device_idle and not evidence.frozen else WEAK + 0.05
    return Finding("host_starvation", score, "host not seen", facts, unseen=unseen)


def _unseen(evidence: Evidence, front: FrontView) -> tuple[str, ...]:
    unseen = []
    if not evidence.stacks_seen:
        unseen.append("threads not seen" if not evidence.states_seen else "stacks not seen: work or busy-wait")
    if front.busy is None:
        unseen.append("front end not seen")
    return tuple(unseen)
