"""The part of synchronisation in which all ranks are in a collective: slow while bytes move, hung where none do.

Host threads do not tell: with CUDA they wait for the device either way. The links' byte counters do.
"""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    COLD,
    COOL,
    LIKELY,
    POSSIBLE,
    SLOW,
    STRONG,
    drawn,
    each_ratio,
    prompts_outweigh,
    quiet,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

BUSY: Final = 0.9
"""Of the busy level; spinning devices read 96-100 %."""

CARRIES: Final = 20e6
"""Bytes a second of each device in ordinary steps: launching and sampling move less, the ranks' reductions more (they
send 16 KiB a layer for each token of an 8B model)."""

MOVES: Final = 0.5
"""Of the usual bytes a second, over those of the steps that were taken meanwhile: steady steps scatter by less."""

STILL: Final = 0.1
"""Under this share nothing but polling goes over the link."""

CLOCKS: Final = 0.85
"""Of the usual SM clock: under it power falls by itself."""

UNSEEN: Final = (
    "link counters not seen: whether bytes moved between the devices (a driver that counts PCIe or NVLink bytes tells,"
    " or DCGM's profiling fields)"
)
UNCLEAR: Final = "some bytes moved between the devices, fewer than in ordinary steps"


def several(evidence: Evidence) -> bool:
    """Whether there are ranks that a collective could join: engines of their own share no step."""
    engines = sum(item.critical and item.role == "engine" for item in evidence.threads)
    return evidence.ranks.total > 1 or (evidence.devices + evidence.peers > 1 and engines < 2)


def excess(evidence: Evidence) -> float | None:
    """Bytes a second between the devices against the usual, over those of the steps that were taken; None where no
    counter tells of the way that the collectives take."""
    link = evidence.link
    if link is None or not link.before or link.before < CARRIES * max(1, evidence.devices):
        return None
    return link.rate / link.before - (evidence.progress_ratio or 0.0)


def bytes_move(evidence: Evidence) -> bool | None:
    """Whether bytes move between the devices; None where that was not seen, or is unclear."""
    more = excess(evidence)
    if more is None or STILL < more < MOVES:
        return None
    return more >= MOVES


def link_fact(evidence: Evidence) -> tuple[Fact, ...]:
    """What the link carried, beside the usual."""
    link = evidence.link
    if link is None or excess(evidence) is None:
        return ()
    says = f"{link.rate / 1e9:.2f} GB/s {link.says} (before: {(link.before or 0.0) / 1e9:.2f} GB/s)"
    return (Fact(link.signal, round(link.rate, 1), "bytes/s", says),)


def blind(evidence: Evidence) -> tuple[str, ...]:
    """What keeps a slow collective and a hung one from being told apart."""
    return (UNSEEN if excess(evidence) is None else UNCLEAR,)


def rests(evidence: Evidence) -> bool | None:
    """Whether busy devices do little work, by their power or their counters; None where neither was seen."""
    if any(item is not None and item < COLD for item in (evidence.sm_ratio, evidence.dram_ratio)):
        return True
    power = drawn(evidence)
    return None if power is None else power.ratio < COOL


def collective(evidence: Evidence) -> Finding | None:
    """All ranks' devices are busy in a collective that takes long; None where nothing says so."""
    if not several(evidence) or quiet(evidence) or not _all_busy(evidence):
        return None
    power = drawn(evidence)
    facts = (*link_fact(evidence), *(() if power is None else (power.fact,)))
    resting = rests(evidence)
    if not evidence.frozen:
        return _each_step(evidence, facts) if resting else None
    moving = bytes_move(evidence)
    if moving is None and resting:
        detail = "collective: all ranks are in it"
        return Finding("synchronisation", POSSIBLE, detail, facts, (), blind(evidence), Remedy.SLOW_COLLECTIVE)
    if not moving:
        return None
    detail = "collective: all ranks are in it, bytes move"
    if resting:
        return Finding("synchronisation", STRONG, detail, facts, remedy=Remedy.SLOW_COLLECTIVE)
    settled = evidence.prompt_rate is not None and (evidence.prompt_settled or not evidence.prompt_late)
    booked = prompts_outweigh(evidence) or bool(evidence.prefilling)
    score = LIKELY - 0.1 if settled and not booked else POSSIBLE - 0.1
    unseen = ("power not seen: a long prefill moves bytes as well",) if power is None else ()
    return Finding("synchronisation", score, detail, facts, (), unseen, Remedy.SLOW_COLLECTIVE)


def _each_step(evidence: Evidence, facts: tuple[Fact, ...]) -> Finding | None:
    """Steps are taken, each far slower, at the clocks of ever: the devices spin for most of each."""
    progress, each = evidence.progress_ratio, each_ratio(evidence)
    if progress is None or progress >= SLOW or (each is not None and each >= SLOW):
        return None
    if prompts_outweigh(evidence) or _held_back(evidence):
        return None
    slow = Fact("tokens.decode", round(progress, 4), "ratio", f"progress {progress:.0%} of the usual, all devices busy")
    detail = "collective: slow in every step"
    return Finding("synchronisation", LIKELY - 0.1, detail, (slow, *facts), remedy=Remedy.SLOW_COLLECTIVE)


def _held_back(evidence: Evidence) -> bool:
    """Whether the devices have another reason to be slow: their clocks, or somebody else's work."""
    slow = evidence.clock_ratio is not None and evidence.clock_ratio < CLOCKS
    return slow or (evidence.foreign or 0.0) > (evidence.foreign_before or 0.0)


def _all_busy(evidence: Evidence) -> bool:
    level = BUSY * (evidence.busy_level or 1.0)
    peers = evidence.peers_busy
    return evidence.busy is not None and evidence.busy >= level and (peers is None or peers >= level)
