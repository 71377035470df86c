"""The part of host_starvation in which the host has no core for the engine: a quota, a crowd, a hypervisor, a mask."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import LIKELY, SOME, STRONG, WITNESSED
from gaptop.valleys.evidence import Cores, Evidence
from gaptop.valleys.host_view import BUSY, CriticalView
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

WANTS_CPU: Final = 0.3
"""Waiting for a core for a third of the time: more than an ordinary neighbour takes."""

GROWN: Final = 1.5
"""Times the usual share: who is always kept from its core so long is not slower for it now. No more than that: what
slowly begins is in the usual, too."""

THROTTLED: Final = 0.2
"""Held back by the CPU quota for a fifth of the time."""

UNHURT: Final = 0.1
"""An engine that waits for a core for less than this was not held back by what held back others of its cgroup."""

STOLEN: Final = 0.2
"""A fifth of all cores' time more than usual went to other machines."""

SLOW_CORE: Final = 0.6
"""A core under 60 % of its highest clock is worth a word; by itself it explains no gap."""

OWN: Final = 0.5
"""Threads that wait for a core crowd each other where they use half of their cores or more; else others have most."""

NO_STACKS: Final = "stacks not seen: they would tell what the thread wanted the core for"
NO_QUOTA: Final = "CPU quota not seen: a thread that is throttled waits for a core as well"
NO_THREADS: Final = "threads not seen: whether the engine's own thread was kept from its core"


def without_core(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    """The best that can be said of cores, or None where nothing kept the engine from one."""
    found = [
        item
        for item in (_throttled(evidence, main, facts), _stolen(evidence, facts), _contended(evidence, main, facts))
        if item is not None
    ]
    return max(found, key=lambda item: item.score, default=None)


def slow_core(evidence: Evidence) -> tuple[Fact, ...]:
    """That the engine's core ran at a low clock: a fact beside a cause, never one by itself."""
    clock, highest = evidence.cores.frequency, evidence.cores.frequency_max
    if clock is None or not highest or clock >= SLOW_CORE * highest:
        return ()
    says = f"its core ran at {clock / 1e9:.1f} of {highest / 1e9:.1f} GHz"
    return (Fact("host.core_frequency", round(clock), "hertz", says),)


def _throttled(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    """The kernel's own counter, and what the engine's thread felt of it: a thread whose group is held back wants a
    core all the while."""
    share, usual = evidence.throttled_share, evidence.throttled_before or 0.0
    if share is None or share < max(THROTTLED, GROWN * usual):
        return None
    if main.wants_cpu is not None and main.wants_cpu < UNHURT:
        return None
    quota = "" if evidence.cores.quota is None else f" of {evidence.cores.quota:.3g} cores"
    says = f"the cgroup was held back by its CPU quota{quota} {share:.0%} of the time (before: {usual:.0%})"
    fact = Fact("host.throttled", round(share, 4), "ratio", says)
    felt = share if main.wants_cpu is None else min(share, main.wants_cpu)
    score, against = WITNESSED if felt >= BUSY else LIKELY, _busy(evidence)
    if against:
        score = LIKELY
    detail, unseen = "cgroup throttling", _unseen(evidence)
    return Finding("host_starvation", score, detail, (fact, *facts), against, unseen, Remedy.THROTTLING)


def _stolen(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding | None:
    """A stolen core looks like one that runs: no thread's state tells of it."""
    steal, usual = evidence.cores.steal, evidence.cores.steal_before or 0.0
    if steal is None or steal - usual < STOLEN or evidence.device_idle is False:
        return None
    says = f"the hypervisor gave {steal:.0%} of all cores' time to other machines (before: {usual:.0%})"
    fact = Fact("host.steal", round(steal, 4), "ratio", says)
    return Finding("host_starvation", WITNESSED, "host steal", (fact, *facts), (), _unseen(evidence), Remedy.STEAL)


def _contended(evidence: Evidence, main: CriticalView, facts: tuple[Fact, ...]) -> Finding | None:
    usual = 0.0 if main.thread is None else main.thread.wants_cpu_before or 0.0
    if main.wants_cpu is None or main.wants_cpu < max(WANTS_CPU, GROWN * usual):
        return None
    says = f"the critical thread waited for a core {main.wants_cpu:.0%} of the time (before: {usual:.0%})"
    fact = Fact("host.runqueue_wait", round(main.wants_cpu, 4), "ratio", says)
    unseen = () if evidence.stacks_seen else (NO_STACKS,)
    detail, remedy, why = kept_by(evidence.cores)
    if evidence.throttled_share is None and remedy is Remedy.CONTENTION:
        unseen = (*unseen, NO_QUOTA)
    score, against = STRONG if main.wants_cpu >= BUSY else LIKELY, _busy(evidence)
    if against:
        score = LIKELY
    return Finding("host_starvation", score, detail, (fact, *why, *facts), against, unseen, remedy)


def _busy(evidence: Evidence) -> tuple[str, ...]:
    """A device at work was not kept waiting; on a CPU server the threads that want a core are the device."""
    if evidence.device_idle is False and not evidence.is_cpu:
        return (f"the device was busy {evidence.busy:.0%}",)
    return ()


def kept_by(cores: Cores) -> tuple[str, Remedy, tuple[Fact, ...]]:
    """Who kept the thread from a core: the server's own threads, a mask that leaves other cores idle, or other work."""
    may = min((item for item in (cores.allowed, cores.quota) if item is not None), default=None)
    of = "" if cores.host is None or may is None or may >= cores.host else f" of the machine's {cores.host:.0f}"
    others: tuple[Fact, ...] = ()
    if cores.used is not None and may is not None and cores.used < OWN * may:
        says = f"its own threads used {cores.used:.2g} cores, and it may use {may:.3g}{of}"
        others = (Fact("host.cpu_seconds", round(cores.used, 3), "cores", says),)
    if cores.runnable is not None and may is not None and cores.runnable >= may + SOME and not others:
        says = f"{cores.runnable:.1f} of its threads ran or waited for a core at a time, and it may use {may:.3g}{of}"
        told = Fact("host.runnable_threads", round(cores.runnable, 2), "threads", says)
        return "thread oversubscription", Remedy.OVERSUBSCRIPTION, (told,)
    if (
        cores.host is not None
        and cores.allowed is not None
        and cores.allowed < cores.host
        and cores.host_busy is not None
    ):
        idle = cores.host * (1.0 - cores.host_busy)
        if idle >= 1.0:
            says = f"it may use {cores.allowed:.0f} of {cores.host:.0f} cores, while {idle:.1f} of all were idle"
            return "CPU affinity", Remedy.AFFINITY, (Fact("host.allowed_cores", cores.allowed, "cores", says),)
    if cores.pressure is not None:
        says = f"some thread of its cgroup waited for a core {min(1.0, cores.pressure):.0%} of the time"
        others = (*others, Fact("host.group_pressure", round(cores.pressure, 4), "ratio", says))
    return "CPU contention", Remedy.CONTENTION, others


def _unseen(evidence: Evidence) -> tuple[str, ...]:
    return () if evidence.stacks_seen or evidence.states_seen else (NO_THREADS,)
