"""external_wait: the work waits for something outside: remote KV, storage, an adapter."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    FEW,
    KV_FULL,
    LIKELY,
    SOME,
    STRONG,
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
        return Finding("external_wait", LIKELY + 0.1, "adapter or weights load", (fact,))
    disk = _on_storage(evidence)
    if disk >= SHARE:
        fact = Fact("host.blocked", round(disk, 4), "ratio", f"critical thread blocked on storage {disk:.0%}")
        blind = () if evidence.stacks_seen else (NOT_SAID_WHAT,)
        return Finding("external_wait", STRONG, "storage", (fact,), (), blind, Remedy.STORAGE)
    if evidence.major_faults is not None and evidence.major_faults >= FAULTS:
        says = f"{evidence.major_faults:.0f} page faults a second had to read storage"
        fact = Fact("host.major_faults", round(evidence.major_faults, 2), "faults/s", says)
        return Finding("external_wait", LIKELY, "paging", (fact,), (), unseen, Remedy.PAGING)
    running = evidence.running
    deferred = evidence.deferred
    if deferred is not None and deferred >= SOME and running is not None and running.mean <= max(FEW, deferred / 2):
        if evidence.kv is not None and evidence.kv.high >= KV_FULL:
            return nothing("external_wait", f"KV use reached {evidence.kv.high:.0%}")
        says = f"{deferred:.1f} requests deferred while {running.mean:.1f} ran"
        fact = Fact("sched.waiting_by_reason", round(deferred, 3), "requests", says)
        score = LIKELY + 0.1 if all_deferred(evidence) else LIKELY
        return Finding("external_wait", score, "deferred requests", (fact,), unseen=(*unseen, FOR_WHAT))
    seen = [] if evidence.deferred is None else [f"{evidence.deferred:.1f} requests deferred"]
    seen += [] if main.transfer is None else [f"transfer frames {main.transfer:.0%}"]
    seen += [] if evidence.major_faults is None else [f"{evidence.major_faults:.0f} page faults a second"]
    return nothing("external_wait", *((", ".join(seen),) if seen else ()), unseen=unseen)


def _on_storage(evidence: Evidence) -> float:
    """How long a critical thread was blocked on storage. In a sync, the driver's own sleep looks the same."""
    threads = [item for item in evidence.threads if item.critical]
    return max((item.held.read if item.held else item.blocked_on_disk or 0.0 for item in threads), default=0.0)
