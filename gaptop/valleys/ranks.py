"""Which engine of a server with several (data parallel ranks) works on which device, and who can speak about it.

Ranks serve different requests: what one of them does says nothing about another's device. A process belongs to the rank
in its title (vLLM: ``VLLM::EngineCore_DP1``, ``VLLM::Worker_DP1_TP0``), an engine without one is a rank of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from gaptop.valleys.model import Verdict
from gaptop.valleys.scope import CRITICAL_ROLES, ENGINE_ROLES, DeviceRef, ProcessRef, Scope

MAPPING_UNKNOWN: Final = "which of the server's engines works on this device (mapping unknown)"
NEIGHBOURS: Final = "what the other servers on the same device did: this argument is from one server's requests alone"
ALL_ENGINES: Final = "this engine's own requests and tokens: the server's metrics add up all of its engines"
_RANK: Final = re.compile(r"_DP(\d+)")

Ranks = frozenset[str]


def narrowed(scope: Scope, dipped: Collection[str]) -> Scope:
    """What can speak about a valley of these devices (their sources): their engine's devices and threads, and the front
    end. Where it is not known whose they are, no engine's thread is heard, unless all devices dip together."""
    if scope.engines < 2:
        return scope
    found = [ranks_of(scope, device) for device in scope.devices if device.source in dipped]
    if found and all(ranks is not None for ranks in found):
        ours = frozenset(rank for ranks in found if ranks is not None for rank in ranks)
        return replace(
            scope,
            devices=tuple(item for item in scope.devices if (ranks_of(scope, item) or frozenset()) & ours),
            stacks=tuple(item for item in scope.stacks if _speaks(item, ours)),
            states=tuple(item for item in scope.states if _speaks(item, ours)),
        )
    if all(device.source in dipped for device in scope.devices):
        return scope
    return replace(
        scope,
        devices=tuple(item for item in scope.devices if item.source in dipped),
        stacks=tuple(item for item in scope.stacks if item.role not in CRITICAL_ROLES),
        states=tuple(item for item in scope.states if item.role not in CRITICAL_ROLES),
        mapped=False,
    )


def together(scope: Scope, first: str, second: str) -> bool:
    """Whether dips of two devices (their sources) may be one valley: those of one engine, or of nobody knows whose."""
    refs = {device.source: device for device in scope.devices}
    if first not in refs or second not in refs:
        return False
    return scope.engines < 2 or ranks_of(scope, refs[first]) == ranks_of(scope, refs[second])


def qualified(verdict: Verdict, scope: Scope, whole: Scope) -> Verdict:
    """A verdict on the part ``scope`` of a server with several engines, or on a device of several servers: it says what
    could not be told apart, and is never of high confidence. That one of several servers has no request is no more than
    a guess at why a device of all of them is idle."""
    shared = bool(scope.neighbours and scope.devices)
    unseen: tuple[str, ...] = (NEIGHBOURS,) if shared else ()
    if scope.engines > 1 and not (scope.mapped and len(scope.devices) == len(whole.devices)):
        unseen += (ALL_ENGINES,) if scope.mapped else (MAPPING_UNKNOWN, ALL_ENGINES)
    if not unseen:
        return verdict
    confidence = "medium" if verdict.confidence == "high" else verdict.confidence
    said = replace(verdict, unseen=(*unseen, *verdict.unseen), confidence=confidence)
    return replace(said, confidence="low", doubt=NEIGHBOURS) if shared and said.cause == "no_demand" else said


def ranks_of(scope: Scope, device: DeviceRef) -> Ranks | None:
    """The ranks whose processes are on a device; None where that is not known."""
    on = {ref.pid: ref for ref in (*scope.stacks, *scope.states) if ref.pid in (device.pids or ())}
    ranks = [_rank(ref) for ref in on.values() if ref.role in CRITICAL_ROLES]
    known = frozenset(rank for rank in ranks if rank is not None)
    return known if known and len(known) == len(set(ranks)) else None


def _rank(ref: ProcessRef) -> str | None:
    match = _RANK.search(ref.name)
    if match is not None:
        return match[1]
    return f"pid {ref.pid}" if ref.role in ENGINE_ROLES else None


def _speaks(ref: ProcessRef, ours: Ranks) -> bool:
    return ref.role not in CRITICAL_ROLES or _rank(ref) in ours
