"""synchronisation: the critical thread is blocked in a sync, a copy or a collective while its device idles."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.collective import collective
from gaptop.valleys.causes.demand import nobody_asks
from gaptop.valleys.causes.rule import (
    FEW,
    LIKELY,
    POSSIBLE,
    STRONG,
    WEAK,
    WORKER_UNSEEN,
    heavy_traffic,
    nothing,
    prompts_outweigh,
    quiet,
)
from gaptop.valleys.causes.straggler import blind_ranks, straggler
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, CriticalView, critical, holds_none
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

BLOCKED: Final = 0.4
"""A thread that syncs for 40 % of a stretch while its device idles holds it up; waiting for a busy one is normal."""

UNWATCHED: Final = "device not seen: a sync with one that works is no fault"

SPINNING: Final = 0.9
DETAILS: Final = {
    "device_sync": "device sync",
    "copy": "blocking copy",
    "collective": "collective: a rank is waited for",
}


def synchronisation(evidence: Evidence) -> Finding:
    main = critical(evidence)
    what = "stacks" if evidence.states_seen else "threads"
    unseen = () if main.sync is not None else (f"{what} not seen: a sync leaves no trace in metrics",)
    if main.worker_unseen:
        unseen = (WORKER_UNSEEN,)
    if nobody_asks(evidence):
        return nothing("synchronisation", "nothing ran or waited, and nobody was connected", unseen=unseen)
    awaits = holds_none(evidence)
    if awaits is not None and quiet(evidence):
        return nothing("synchronisation", f"the engine itself awaited requests {awaits:.0%}: nothing was under way")
    if (late := straggler(evidence)) is not None:
        return late
    # Gauges that move when a step ends still read 0 during the first one.
    if quiet(evidence) and (main.sync or 0.0) < BLOCKED:
        return nothing("synchronisation", "nothing ran, so nothing had to be waited for", unseen=unseen)
    if (spun := collective(evidence)) is not None:
        return spun
    # At least this much of the syncing fell into idle time, however the two lie.
    blocked = (main.sync or 0.0) - (evidence.busy or 0.0)
    if main.sync is not None and main.sync >= BLOCKED and (evidence.device_idle is False or blocked >= BLOCKED):
        detail = DETAILS.get(main.sync_activity, main.sync_activity)
        fact = Fact(
            "host.thread_activity", round(main.sync, 4), "ratio", f"the critical thread was in {detail} {main.sync:.0%}"
        )
        remedy = Remedy.COLLECTIVE if main.sync_activity == "collective" else Remedy.USUAL
        against = _against(evidence, main, blocked)
        score = WEAK if against else min(STRONG + 0.05, LIKELY - 0.05 + 0.35 * blocked)
        if evidence.busy is None:
            # While steps go on, however slowly, to wait for the device between them is what every engine does.
            waits = main.sync_activity == "device_sync" and evidence.frozen is not True
            score, unseen = min(score, WEAK if waits else POSSIBLE), (UNWATCHED, *unseen)
        if main.sync_activity == "collective":
            unseen = (*blind_ranks(evidence), *unseen)
        return Finding("synchronisation", score, detail, (fact,), against, unseen, remedy)
    peers = evidence.peers_busy
    if evidence.device_idle and peers is not None and peers >= SPINNING * (evidence.busy_level or 1.0):
        fact = Fact("device.busy", round(peers, 4), "ratio", f"the other devices read {peers:.0%} meanwhile")
        score = LIKELY if evidence.progress_ratio is None or evidence.progress_ratio < 1 - FEW else WEAK
        if prompts_outweigh(evidence):
            score = min(score, POSSIBLE)
        return Finding("synchronisation", score, _straggler(evidence), (fact,), unseen=unseen, remedy=Remedy.COLLECTIVE)
    if evidence.device_idle and (moved := heavy_traffic(evidence)) is not None:
        # A thread that was seen not to wait may have let the transfer run beside it; in code that no rule knows it may
        # have waited all the same.
        unread = main.work_activity == "other" and main.always_on
        score = LIKELY if main.sync is None or main.sync >= BLOCKED or unread else POSSIBLE
        if prompts_outweigh(evidence):
            score = min(score, POSSIBLE)
        return Finding("synchronisation", score, "transfer", (moved,), unseen=unseen, remedy=Remedy.TRANSFER)
    if main.sync is None:
        return nothing("synchronisation", unseen=unseen)
    meanwhile = "" if evidence.busy is None else f", and the device was busy {evidence.busy:.0%}"
    return nothing("synchronisation", f"the critical thread synchronised {main.sync:.0%} of the time{meanwhile}")


def _straggler(evidence: Evidence) -> str:
    """Fewer devices idle than work: those are late or left out. More idle than work: they wait for the ones that do."""
    if evidence.devices > evidence.peers:
        return "collective: a rank works alone while the others wait for it"
    return "collective: this rank idles while the others spin"


def _against(evidence: Evidence, main: CriticalView, blocked: float) -> tuple[str, ...]:
    """What explains the wait: a device that works (all the time but ``blocked``), or that most ranks come late to the
    collective."""
    if evidence.device_idle is False and blocked < BLOCKED:
        return (f"the device was busy {evidence.busy:.0%}: waiting for it is what a sync is for",)
    late = main.thread is not main.sync_thread and main.work is not None and main.work >= BUSY
    if late and main.sync_activity == "collective" and main.thread is not None:
        return (f"another rank ({main.thread.name}) did host work {main.work:.0%} of the time: it was waited for",)
    return ()
