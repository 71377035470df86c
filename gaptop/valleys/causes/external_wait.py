"""external_wait: the work waits for something outside: remote KV, storage, an adapter."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.admission_stall import deferred_hold_cap
from gaptop.valleys.causes.rule import (
    FEW,
    KV_FULL,
    LIKELY,
    POSSIBLE,
    SECONDED,
    SOME,
    STRONG,
    WEAK,
    all_deferred,
    by_frames,
    nothing,
    prompts_outweigh,
    quiet,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather_frames import ADAPTER
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

SHARE: Final = 0.4
"""Share of the time in transfer or load frames, or blocked on storage, that holds the steps up."""

OFTENER: Final = 2.0
"""Times the usual rate of such faults."""

UNHURT: Final = 0.1
"""An engine that is blocked on storage for less than this waits for no page."""

FAULTS: Final = 100.0
"""Page faults from storage a second; at 0.1-1 ms each they take a tenth of the time or more."""


FOR_WHAT: Final = "what the deferred requests wait for: remote KV, an adapter's slot, a grammar"
HANDED_OVER: Final = "prompts were computed meanwhile: it may be their KV that was waited for"
NOT_SAID_WHAT: Final = "stacks not seen: they would tell what it read"


def external_wait(evidence: Evidence) -> Finding:
    main = critical(evidence)
    unseen = () if main.transfer is not None else ("threads not seen: connector frames",)
    if quiet(evidence) and not (main.loading and main.loading >= SHARE):
        return nothing("external_wait", "nothing ran or waited", unseen=unseen)
    if main.transfer is not None and main.transfer >= SHARE:
        fact = Fact("host.thread_activity", round(main.transfer, 4), "ratio", f"KV transfer frames {main.transfer:.0%}")
        if prompts_outweigh(evidence):
            return Finding("external_wait", LIKELY, "remote KV", (fact,), (HANDED_OVER,), remedy=Remedy.REMOTE_KV)
        return Finding("external_wait", STRONG, "remote KV", (fact,), remedy=Remedy.REMOTE_KV)
    if main.loading is not None and main.loading >= SHARE:
        fact = Fact("host.thread_activity", round(main.loading, 4), "ratio", f"loading frames {main.loading:.0%}")
        if by_frames(evidence, ADAPTER) >= SHARE:
            return Finding("external_wait", STRONG, "adapter load", (fact,), remedy=Remedy.ADAPTER)
        return Finding("external_wait", SECONDED, "adapter or weights load", (fact,))
    told = [item for item in (_storage(evidence, unseen), _deferred(evidence, unseen)) if item is not None]
    if told:
        return max(told, key=lambda item: item.score)
    deferred = evidence.deferred
    if deferred is not None and deferred.mean >= SOME and evidence.kv is not None and evidence.kv.high >= KV_FULL:
        return nothing("external_wait", f"KV use reached {evidence.kv.high:.0%}")
    seen = [] if deferred is None else [f"{deferred.mean:.1f} requests deferred"]
    seen += [] if main.transfer is None else [f"transfer frames {main.transfer:.0%}"]
    seen += [] if evidence.major_faults is None else [f"{evidence.major_faults:.0f} page faults a second"]
    return nothing("external_wait", *((", ".join(seen),) if seen else ()), unseen=unseen)


def _storage(evidence: Evidence, unseen: tuple[str, ...]) -> Finding | None:
    """A thread that is blocked on storage, or page faults that must read it: whose they were is only told by who waited
    for them."""
    disk = _on_storage(evidence)
    faults, usual = evidence.major_faults or 0.0, evidence.major_faults_before or 0.0
    paging = faults >= max(FAULTS, OFTENER * usual)
    says = f"{faults:.0f} page faults a second had to read storage"
    facts = (Fact("host.major_faults", round(faults, 2), "faults/s", says),) if paging else ()
    if disk is not None and disk >= SHARE:
        fact = Fact("host.blocked", round(disk, 4), "ratio", f"critical thread blocked on storage {disk:.0%}")
        blind = () if evidence.stacks_seen or paging else (NOT_SAID_WHAT,)
        detail, remedy = ("paging", Remedy.PAGING) if paging else ("storage", Remedy.STORAGE)
        return Finding("external_wait", STRONG, detail, (fact, *facts), (), blind, remedy)
    if not paging:
        return None
    if disk is not None and disk < UNHURT:
        other = (f"the engine's thread was blocked on storage only {disk:.0%} of the time",)
        return Finding("external_wait", WEAK, "paging", facts, other, unseen, Remedy.PAGING)
    if evidence.device_idle is False:
        busy = (f"the device was busy {evidence.busy:.0%}",)
        return Finding("external_wait", POSSIBLE, "paging", facts, busy, unseen, Remedy.PAGING)
    return Finding("external_wait", LIKELY, "paging", facts, (), unseen, Remedy.PAGING)


def _deferred(evidence: Evidence, unseen: tuple[str, ...]) -> Finding | None:
    """Requests that the scheduler passes over although there is memory for them, while little else runs."""
    running, deferred, kv = evidence.running, evidence.deferred, evidence.kv
    if deferred is None or deferred.mean < SOME or running is None or running.mean > max(FEW, deferred.mean / 2):
        return None
    if kv is not None and kv.high >= KV_FULL:
        return None
    says = f"{deferred.mean:.1f} requests deferred while {running.mean:.1f} ran"
    fact = Fact("sched.waiting_by_reason", round(deferred.mean, 3), "requests", says)
    if deferred_hold_cap(evidence):
        held = ("they fill the sequence limit, and others that wait for nothing wait behind it",)
        return Finding("external_wait", POSSIBLE, "deferred requests", (fact,), held, unseen, Remedy.DEFERRED)
    score = SECONDED if all_deferred(evidence) else LIKELY
    return Finding("external_wait", score, "deferred requests", (fact,), (), (*unseen, FOR_WHAT), Remedy.DEFERRED)


def _on_storage(evidence: Evidence) -> float | None:
    """How long a critical thread was blocked on storage; None where no run state tells. In a sync, the driver's own
    sleep looks the same."""
    threads = [item for item in evidence.threads if item.critical]
    told = [item.held.read if item.held else item.blocked_on_disk for item in threads]
    return max((item for item in told if item is not None), default=None)
