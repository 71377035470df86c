"""host_starvation: there is work and memory for it, and the host does not get it to the device."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.demand import MAY_WAIT, NAMES, front_unseen, hidden_demand, nobody_asks
from gaptop.valleys.causes.late_output import late_output
from gaptop.valleys.causes.no_core import slow_core, without_core
from gaptop.valleys.causes.offload import offloaded
from gaptop.valleys.causes.one_frame import MAYBE_GC, one_frame
from gaptop.valleys.causes.rule import (
    CERTAIN,
    FAINT,
    FEW,
    HINTED,
    KV_FULL,
    LIKELY,
    POSSIBLE,
    SOME,
    UNTOUCHED,
    WEAK,
    WITNESSED,
    WORKER_UNSEEN,
    all_deferred,
    gauge_fact,
    not_told,
    nothing,
    quiet,
    rate_fact,
    waiting_fact,
)
from gaptop.valleys.causes.straggler import straggler
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import (
    BUSY,
    ON_CPU,
    CriticalView,
    critical,
    front_end,
    grammar_compiler,
    holds_none,
    rests_for_host,
    unread_share,
)
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

HELD: Final = 0.3
"""Waiting for a lock for a third of the time is more than threads that share an interpreter do to each other."""

RANGE: Final = 0.3
"""From LIKELY to CERTAIN, by the share of the time that the thread worked or waited for its lock."""

MUCH: Final = 0.3
"""Of the time, in code that no rule knows, or in code that one knows."""

WORTH_TELLING: Final = 0.1

SOME_GC: Final = 0.02
"""Ordinary serving shows next to no frame that watches the collector."""

LOCK: Final = "lock or GIL wait"
GIL_UNASKED: Final = "who held the interpreter's lock was not asked (--gil tells it)"
STATES_UNSEEN: Final = "run states not seen: whether it ran, or waited for a core or a lock"

SPINS: Final = "whether it works in code that no rule knows: it is always on a core, and may busy-wait in there"

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
    if nobody_asks(evidence):
        return nothing("host_starvation", "nothing ran or waited, and nobody was connected")
    front, main = front_end(evidence), critical(evidence)
    hidden = hidden_demand(evidence, front)
    if hidden is not None:
        return hidden
    late = late_output(evidence, front)
    if late is not None:
        return late
    behind = straggler(evidence)
    if behind is not None and behind.score >= LIKELY:
        return nothing("host_starvation", f"only some of the {evidence.ranks.total} ranks: {behind.facts[0].says}")
    empty = True if holds_none(evidence) is not None else quiet(evidence)
    if empty and (main.work is None or main.work < BUSY):
        return nothing("host_starvation", "nothing ran or waited", unseen=front_unseen(evidence, front))
    kv, waiting = evidence.kv, evidence.waiting
    if kv is not None and kv.high >= KV_FULL and waiting and waiting.mean >= SOME and not rests_for_host(evidence):
        return nothing("host_starvation", f"KV use reached {kv.high:.0%} while requests waited")
    facts = (
        *gauge_fact("sched.running", evidence.running, "running"),
        *waiting_fact(evidence),
        *rate_fact("step.count", evidence.step_rate, evidence.step_before, "steps", "steps/s"),
        *slow_core(evidence),
    )
    told = (
        _compiling_grammars(evidence, facts),
        without_core(evidence, main, facts),
        offloaded(evidence, facts),
        _working(evidence, main, facts),
    )
    found = [item for item in told if item is not None]
    if found:
        return max(found, key=lambda item: item.score)
    if evidence.stacks_seen and main.work is not None:
        if main.worker_unseen:
            return nothing("host_starvation", unseen=(WORKER_UNSEEN,))
        waits = f", the engine waiting or polling {main.waits:.0%}" if main.waits else ""
        dozed = f", asleep in its frames {main.dozed:.0%} ({main.dozed_on})" if main.dozed else ""
        says = f"the critical thread did host work only {main.work:.0%} of the time{waits}{dozed}"
        return nothing("host_starvation", says)
    return _without_stacks(evidence, main, facts, empty)


def _stopped(evidence: Evidence) -> Finding:
    roles = ", ".join(evidence.stopped)
    if set(evidence.stopped) == {"api"} and evidence.device_idle is False:
        busy = (f"the device was busy {evidence.busy:.0%}: it needs no front end for what it has in hand",)
        return Finding("host_starvation", POSSIBLE, "front end stopped", against=busy, remedy=Remedy.FRONT_STOPPED)
    fact = Fact("host.stopped", 1.0, "ratio", f"process stopped (SIGSTOP or a debugger): {roles}")
    front = bool({"api", "server"} & set(evidence.stopped))
    detail, remedy = ("front end stopped", Remedy.FRONT_STOPPED) if front else (f"stopped: {roles}", Remedy.STOPPED)
    return Finding("host_starvation", CERTAIN, detail, (fact,), remedy=remedy)


def _compiling_grammars(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding | None:
    """Most requests are passed over until a thread beside the engine's own has compiled their grammars."""
    thread, share = grammar_compiler(evidence)
    running, deferred = evidence.running, evidence.deferred
    if thread is None or share < BUSY or running is None or deferred is None:
        return None
    if deferred.mean < max(SOME, running.mean):
        return None
    says = f"thread {thread.name} compiled grammars {share:.0%} of the time"
    fact = Fact("host.thread_activity", round(share, 4), "ratio", says)
    says = f"{deferred.mean:.1f} requests deferred"
    passed = Fact("sched.waiting_by_reason", round(deferred.mean, 3), "requests", says)
    return Finding("host_starvation", WITNESSED, NAMES["grammar"], (fact, passed, *facts), remedy=Remedy.GRAMMAR)


def _working(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    if main.work is None or main.work < BUSY:
        return _strange(evidence, main, facts)
    name = _code(main) if main.work_activity == "other" else NAMES.get(main.work_activity, main.work_activity)
    ran = _ran(evidence, main.work, main)
    if main.lock >= max(HELD, ran):
        return _locked(evidence, main, name, facts)
    if main.work_activity == "schedule" and all_deferred(evidence):
        none = ("every request that waits was deferred: the scheduler turned, and had none to run",)
        return Finding("host_starvation", WEAK, name, facts, none)
    if main.work_activity == "schedule" and evidence.running is None:
        blind = (not_told(evidence, "whether it had requests that it could run"),)
        return Finding("host_starvation", POSSIBLE, name, facts, unseen=blind)
    stay = one_frame(main)
    remedy = REMEDIES.get(main.work_activity, Remedy.USUAL if stay is None else Remedy.MAYBE_GC)
    says = f"the critical thread did host work {main.work:.0%} of the time, mostly {name}"
    fact = Fact("host.thread_activity", round(main.work, 4), "ratio", says)
    unseen = (STATES_UNSEEN,) if main.thread is None or main.thread.on_cpu is None else ()
    score = min(CERTAIN, LIKELY + RANGE * (ran + main.lock))
    if main.work_activity == "other":
        score = HINTED if main.always_on else LIKELY
        unseen = (*unseen, SPINS) if main.always_on else unseen
    facts = (fact, *_lock_fact(main), *_gc_fact(main), *facts)
    if stay is not None:
        name, facts = f"{name} {MAYBE_GC}", (fact, stay, *facts[1:])
    if evidence.device_idle is False:
        busy = (f"the device was busy {evidence.busy:.0%}",)
        # On a CPU server launching *is* the computing: a busy device with a launching host is no starvation.
        score = WEAK if main.work_activity == "launch" else min(score, LIKELY)
        return Finding("host_starvation", score, name, facts, busy, unseen, remedy)
    if main.work_activity == "launch" and main.on_cpu is not None and main.on_cpu < BUSY:
        blocked = (f"the launching thread was on a core only {main.on_cpu:.0%} of the time",)
        return Finding("host_starvation", POSSIBLE, name, facts, blocked)
    return Finding("host_starvation", score, name, facts, unseen=unseen, remedy=remedy)


def _ran(evidence: Evidence, work: float, main: CriticalView) -> float:
    """How much of its work frames the thread can have run: not while it waited for a lock or a core, nor while the
    hypervisor had given its core away."""
    on_cpu = 1.0 if main.on_cpu is None else main.on_cpu
    return min(work - main.lock, on_cpu) * (1.0 - (evidence.cores.steal or 0.0))


def _locked(evidence: Evidence, main: CriticalView, name: str, facts: tuple[Fact, ...]) -> Finding:
    """In work frames and asleep on a futex: that is the interpreter's lock, or another one."""
    gil = None if main.thread is None else main.thread.gil
    says = f"the critical thread waited for a lock {main.lock:.0%} of the time, inside {name}"
    fact = Fact("host.blocked", round(main.lock, 4), "ratio", says)
    score = min(WITNESSED, LIKELY + RANGE * main.lock)
    against: tuple[str, ...] = ()
    if evidence.device_idle is False:
        score, against = min(score, LIKELY), (f"the device was busy {evidence.busy:.0%}",)
    if gil is None or (gil.other < HELD and evidence.length < gil.window):
        unseen = (GIL_UNASKED if gil is None else f"who held the GIL is only told over {gil.window:.0f} s at a time",)
        return Finding("host_starvation", score, LOCK, (fact, *facts), against, unseen, Remedy.LOCK)
    if gil.other < HELD:
        says = f"meanwhile no other thread held the interpreter's lock for more than {gil.other:.0%}"
        told = Fact("host.gil", round(gil.other, 4), "ratio", says)
        detail = f"{LOCK}: not the GIL"
        return Finding("host_starvation", score, detail, (fact, told, *facts), against, remedy=Remedy.OTHER_LOCK)
    did = f" ({NAMES.get(gil.activity, gil.activity)})" if gil.activity else ""
    told = Fact("host.gil", round(gil.other, 4), "ratio", f"meanwhile {gil.name} held the GIL {gil.other:.0%}{did}")
    detail = f"{LOCK}: {gil.name} held the GIL"
    return Finding("host_starvation", score, detail, (fact, told, *facts), against, remedy=Remedy.LOCK)


def _lock_fact(main: CriticalView) -> tuple[Fact, ...]:
    if main.lock < WORTH_TELLING:
        return ()
    return (Fact("host.blocked", round(main.lock, 4), "ratio", f"{main.lock:.0%} of it waiting for a lock or the GIL"),)


def _gc_fact(main: CriticalView) -> tuple[Fact, ...]:
    """Python's collector has no frame of its own, only what is told of it when it begins and ends has one."""
    share = ((main.thread and main.thread.activities) or {}).get("gc", 0.0)
    if share < SOME_GC or main.work_activity == "gc":
        return ()
    says = (
        f"garbage collections were told of {share:.0%} of the time; they themselves show as the frame that set them off"
    )
    return (Fact("host.thread_activity", round(share, 4), "ratio", says),)


def _code(main: CriticalView) -> str:
    frame = "" if main.thread is None else main.thread.unrecognised
    return f"unrecognised code: {frame}" if frame else "unrecognised code"


def _strange(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    """Code that no rule knows, and nothing says whether it computes or waits there."""
    if evidence.device_idle is False:
        return None
    if main.unrecognised < BUSY:
        return _as_far_as_read(evidence, main, facts)
    says = f"the critical thread was in code that no rule knows {main.unrecognised:.0%} of the time"
    fact = Fact("host.thread_activity", round(main.unrecognised, 4), "ratio", says)
    return Finding("host_starvation", POSSIBLE, _code(main), (fact, *facts), (), (MAY_WAIT,), Remedy.UNRECOGNISED)


def _as_far_as_read(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    """Host work is most of what can be read of a thread that is in code that no rule knows as well, and it waits for
    its device for less."""
    strange, work = unread_share(main), main.work or 0.0
    if evidence.device_idle is not True or strange < MUCH or 1.0 - strange < MUCH:
        return None
    if work < BUSY * (1.0 - strange) or work <= (main.sync or 0.0):
        return None
    name = NAMES.get(main.work_activity, main.work_activity)
    says = f"the critical thread did host work {work:.0%} of the time, mostly {name}"
    fact = Fact("host.thread_activity", round(work, 4), "ratio", f"{says}, of {1 - strange:.0%} that can be read")
    unseen = (f"what it did in code that no rule knows, {strange:.0%} of the time",)
    remedy = REMEDIES.get(main.work_activity, Remedy.USUAL)
    return Finding("host_starvation", HINTED, name, (fact, *_lock_fact(main), *facts), unseen=unseen, remedy=remedy)


def _without_stacks(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...], empty: bool | None) -> Finding:
    """A core at 100 % may be a busy-wait: without stacks this cannot be proved."""
    unseen = front_unseen(evidence, front_end(evidence))
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
            # One that was on its core just as much while all went well may well busy-wait by design.
            score = FAINT if before is not None else POSSIBLE
            return Finding("host_starvation", score, "critical thread on CPU", (fact, *facts), unseen=unseen)
        if main.on_cpu < FEW:
            return nothing("host_starvation", f"critical thread on a core only {main.on_cpu:.0%} of the time")
        facts = (fact, *facts)
    # Metrics alone do not tell a host that works from one that waits for its device or for another rank.
    return Finding("host_starvation", FAINT, "host not seen", facts, unseen=unseen)
