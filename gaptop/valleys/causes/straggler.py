"""The part of synchronisation in which a rank comes late to the step: its peers, and their devices, wait for it."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.demand import NAMES
from gaptop.valleys.causes.no_core import NO_STACKS, WANTS_CPU, kept_by
from gaptop.valleys.causes.rule import LIKELY, POSSIBLE, STRONG, UNTOUCHED, WEAK, prompts_outweigh
from gaptop.valleys.evidence import Evidence, RankView
from gaptop.valleys.host_view import BUSY, engine_alone
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

ALWAYS: Final = 0.8
"""Of the time in which some rank was late: one that was so for this share of it is the late one, and no other."""

UNHURRIED: Final = 0.1
"""A rank that waits for a core no longer than this has one whenever it wants it."""

REMEDIES: Final = {"gc": Remedy.GC, "grammar": Remedy.GRAMMAR, "log": Remedy.LOGGING, "other": Remedy.UNRECOGNISED}
"""What to do about the work that makes a rank late, where that is not the straggler's own."""

DEVICE_UNSEEN: Final = "device not seen: whether the late rank's had nothing to do"


def straggler(evidence: Evidence) -> Finding | None:
    """A minority of the ranks is late while the others wait; None where all do the same, or it was not seen."""
    if engine_alone(evidence) >= BUSY:
        return None  # all ranks wait for the engine's own process
    return _without_core(evidence) or _by_stacks(evidence)


def blind_ranks(evidence: Evidence) -> tuple[str, ...]:
    """That some of the ranks were not seen, by their stacks where any was, else by their run states."""
    seen = evidence.ranks
    missing = seen.total - (seen.stacks or len(seen.ranks))
    return (f"{missing} of {seen.total} ranks not seen: one of them may be late",) if missing else ()


def _by_stacks(evidence: Evidence) -> Finding | None:
    seen = evidence.ranks
    if seen.skewed is None or seen.skewed < BUSY:
        return None
    late = [item for item in seen.ranks if item.late]
    always = [item for item in late if (item.late or 0.0) >= ALWAYS * seen.skewed]
    waited = "while the others waited for it" if len(always) == 1 else "while the others waited for them"
    facts = tuple(
        Fact(
            "host.thread_activity",
            round(item.late or 0.0, 4),
            "ratio",
            f"{item.name} was at its host work ({_doing(item)}) {item.late:.0%} of the time {waited}",
        )
        for item in sorted(late, key=lambda item: (-(item.late or 0.0), item.name))
    )
    says = f"meanwhile the other ranks waited in a sync, a collective or for work: {seen.skewed:.0%} of the time"
    facts = (*facts, Fact("host.thread_activity", round(seen.skewed, 4), "ratio", says))
    most = max(late, key=lambda item: (item.late or 0.0, item.name))
    remedy = REMEDIES.get(most.doing, Remedy.STRAGGLER)
    if always:
        return _finding(evidence, STRONG + 0.05, _are_late(always, _doing(most)), facts, always, (), remedy)
    detail = f"straggler: no fixed rank is late: {_doing(most)}"
    return _finding(evidence, STRONG, detail, facts, late, (), remedy)


def _without_core(evidence: Evidence) -> Finding | None:
    """A rank that waits for a core, where its peers do not: the stacks show only what it wanted the core for."""
    told = [item for item in evidence.ranks.ranks if item.wants_cpu is not None]
    late = [item for item in told if (item.wants_cpu or 0.0) >= WANTS_CPU]
    others = [item for item in told if item not in late]
    if not late or len(late) > len(others) or any((item.wants_cpu or 0.0) > UNHURRIED for item in others):
        return None
    facts = tuple(
        Fact(
            "host.runqueue_wait",
            round(item.wants_cpu or 0.0, 4),
            "ratio",
            f"{item.name} waited for a core {item.wants_cpu:.0%} of the time"
            + (f", in {_doing(item)}" if item.doing else ""),
        )
        for item in late
    )
    most = max(item.wants_cpu or 0.0 for item in others)
    peers = Fact("host.runqueue_wait", round(most, 4), "ratio", f"its peers {most:.0%} at most")
    unseen = () if evidence.ranks.stacks else (NO_STACKS,)
    remedy, why = kept_by(evidence.cores)[1:]
    detail = _are_late(late, "waits for a core" if len(late) == 1 else "they wait for a core")
    return _finding(evidence, STRONG, detail, (*facts, peers, *why), late, unseen, remedy)


def _are_late(ranks: list[RankView], doing: str) -> str:
    names = ", ".join(item.name for item in ranks)
    return f"straggler: {names} {'is' if len(ranks) == 1 else 'are'} late: {doing}"


def _doing(rank: RankView) -> str:
    if rank.doing == "other":
        return f"unrecognised code: {rank.strange}" if rank.strange else "unrecognised code"
    return NAMES.get(rank.doing, rank.doing)


def _finding(
    evidence: Evidence,
    score: float,
    detail: str,
    facts: tuple[Fact, ...],
    late: list[RankView],
    unseen: tuple[str, ...],
    remedy: Remedy,
) -> Finding:
    against: tuple[str, ...] = ()
    unseen = (*unseen, *blind_ranks(evidence))
    level = evidence.busy_level or 1.0
    worked = [item.busy for item in late if item.busy is not None]
    if worked and min(worked) >= BUSY * level:
        against = (f"its own device was busy {min(worked):.0%}: it had work",)
        score = WEAK
    elif evidence.busy is None:
        score, unseen = min(score, LIKELY), (*unseen, DEVICE_UNSEEN)
    elif not worked and not _room(evidence):
        against = (f"all devices were busy ({evidence.busy:.0%}): each had work",)
        score = WEAK
    if evidence.progress_ratio is not None and evidence.progress_ratio >= UNTOUCHED:
        score, against = WEAK, (*against, f"progress went on at {evidence.progress_ratio:.0%}")
    if prompts_outweigh(evidence) and evidence.device_idle is False:
        score = min(score, POSSIBLE)
    facts = (*facts, *_peers(evidence))
    return Finding("synchronisation", score, detail, facts, against, unseen, remedy)


def _room(evidence: Evidence) -> bool:
    """Whether the devices were idle for as long as one of them idling half of the time."""
    share = (evidence.busy or 0.0) / (evidence.busy_level or 1.0)
    return share <= 1.0 - 0.5 / max(1, evidence.devices)


def _peers(evidence: Evidence) -> tuple[Fact, ...]:
    if evidence.peers_busy is None:
        return ()
    says = f"the other devices read {evidence.peers_busy:.0%} meanwhile"
    return (Fact("device.busy", round(evidence.peers_busy, 4), "ratio", says),)
