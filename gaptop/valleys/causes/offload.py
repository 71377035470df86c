"""The part of host_starvation in which the host computes what does not fit on the device, which waits for it."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import FEW, LIKELY, SECONDED, heavy_traffic
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, critical
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

CORES: Final = 2.0
"""Cores at work: one more than the thread that launches, which may busy-wait on its own."""

MORE_CORES: Final = 2.0
"""Times the cores of the time before: the same work at half the speed would not need more."""


def computes_on_host(evidence: Evidence) -> Fact | None:
    """That the server's own threads compute on several cores more than usual while tokens come and its device idles."""
    used, before = evidence.cores_used, evidence.cores_used_before
    if evidence.is_cpu or evidence.device_idle is not True or used is None or before is None:
        return None
    running = evidence.running
    if running is None or running.mean <= FEW or not evidence.decode_rate or evidence.frozen:
        return None
    if used < CORES or used < MORE_CORES * before or (critical(evidence).work or 0.0) >= BUSY:
        return None
    says = f"the server's threads computed on {used:.1f} cores (before: {before:.1f}) while tokens came"
    return Fact("host.cpu_seconds", round(used, 3), "cores", says)


def offloaded(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding | None:
    """Layers, weights or caches that the host holds: the device waits for its cores, or for their bytes."""
    fact = computes_on_host(evidence)
    if fact is None:
        return None
    moved = heavy_traffic(evidence)
    seen = (fact,) if moved is None else (fact, moved)
    unseen = () if evidence.stacks_seen else ("native stacks not seen: what the host's threads compute",)
    score = LIKELY if moved is None else SECONDED
    return Finding("host_starvation", score, "offload", (*seen, *facts), unseen=unseen, remedy=Remedy.OFFLOAD)
