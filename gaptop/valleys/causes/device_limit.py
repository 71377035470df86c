"""device_limit: the device itself is held back: power, heat, clocks, or a co-tenant."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import LIKELY, POSSIBLE, STRONG, UNTOUCHED, WEAK, nothing, quiet
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

RISE: Final = 0.3
"""A power cap is active at full load on many cards all the time: only what is new explains a valley."""

CLOCK_FELL: Final = 0.85
"""SM clock under 85 % of the usual at load."""


def device_limit(evidence: Evidence) -> Finding:
    unseen = ("clock-event reasons not seen",) if evidence.limit_share is None and not evidence.is_cpu else ()
    if quiet(evidence):
        return nothing("device_limit", "nothing ran, so an idle clock is no limit", unseen=unseen)
    progress = evidence.progress_ratio
    if progress is not None and progress >= UNTOUCHED:
        return nothing("device_limit", f"progress went on at {progress:.0%} of the usual", unseen=unseen)
    share, before = evidence.limit_share, evidence.limit_share_before
    if share is not None and share >= RISE and share - (before or 0.0) >= RISE:
        usual = "" if before is None else f" (before: {before:.0%})"
        fact = Fact(
            "device.limit_seconds", round(share, 4), "ratio", f"{evidence.limit_reason} active {share:.0%}{usual}"
        )
        facts = (fact, *_clock(evidence))
        detail = evidence.limit_reason.replace("_", " ") or "clocks"
        if evidence.device_idle:
            idle = ("the device was idle; a limit slows it but keeps it busy",)
            return Finding("device_limit", POSSIBLE, detail, facts, idle, remedy=_remedy(detail))
        return Finding("device_limit", STRONG, detail, facts, remedy=_remedy(detail))
    foreign, usual_foreign = evidence.foreign, evidence.foreign_before
    if foreign is not None and foreign >= 1.0 and foreign > (usual_foreign or 0.0):
        fact = Fact("device.foreign_processes", foreign, "processes", f"foreign processes on the device: {foreign:.0f}")
        score = WEAK if evidence.device_idle else LIKELY
        return Finding("device_limit", score, "co-tenant", (fact,), unseen=unseen, remedy=Remedy.CO_TENANT)
    clock = evidence.clock_ratio
    if clock is not None and clock < CLOCK_FELL and evidence.device_idle is False:
        return Finding("device_limit", LIKELY, "clocks", _clock(evidence), (), unseen, Remedy.CLOCKS)
    if share is None:
        return nothing("device_limit", unseen=unseen)
    says = "no limit reason advanced" if share < RISE else "limit reasons no stronger than before"
    return nothing("device_limit", says, unseen=unseen)


def _remedy(reason: str) -> Remedy:
    """By the words of NVML's reasons: sw power cap, hw power brake, hw thermal slowdown, hw slowdown ..."""
    if "thermal" in reason:
        return Remedy.THERMAL
    return Remedy.POWER if "power" in reason else Remedy.CLOCKS


def _clock(evidence: Evidence) -> tuple[Fact, ...]:
    if evidence.clock_ratio is None:
        return ()
    return (
        Fact(
            "device.clock_sm", round(evidence.clock_ratio, 4), "ratio", f"SM clock {evidence.clock_ratio:.0%} of usual"
        ),
    )
