"""device_limit: the device itself is held back: power, heat, clocks, or a co-tenant."""

from __future__ import annotations

from math import log
from typing import Final

from gaptop.valleys.causes.pace import prompts_explain
from gaptop.valleys.causes.rule import (
    COLD,
    EACH_FAST,
    HINTED,
    LIKELY,
    OUTWEIGHS,
    POSSIBLE,
    SECONDED,
    SOME,
    STRONG,
    UNTOUCHED,
    WEAK,
    drawn,
    each_ratio,
    each_says,
    nothing,
    prompts_a_step,
    prompts_outweigh,
    quiet,
)
from gaptop.valleys.evidence import STANDSTILL, Evidence
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

RISE: Final = 0.3
"""A power cap is active at full load on many cards all the time: only what is new explains a valley."""

CLOCK_FELL: Final = 0.85
"""SM clock under 85 % of the usual at load."""

MOST: Final = 0.5
"""A limit is the cause where its clock explains half of the slowdown or more..."""
PART: Final = 0.25
"""...and under a quarter of it something else is."""

WAITED: Final = 0.4
"""An engine that waits for its device for less than this is not held up by who else uses it."""

CLOCK_UNSEEN: Final = "SM clock or progress not seen: how much of it the limit explains"
BEFORE_UNSEEN: Final = "limit reasons of the time before not seen: it may have been limited all along"
WHO_WORKED: Final = "which of the processes on the device worked was not seen"


def device_limit(evidence: Evidence) -> Finding:
    unseen = ("clock-event reasons not seen",) if evidence.limit_share is None and not evidence.is_cpu else ()
    if quiet(evidence):
        return nothing("device_limit", "nothing ran, so an idle clock is no limit", unseen=unseen)
    progress = evidence.progress_ratio
    if progress is not None and progress >= UNTOUCHED:
        return nothing("device_limit", f"progress went on at {progress:.0%} of the usual", unseen=unseen)
    each = each_ratio(evidence)
    if each is not None and each >= EACH_FAST:
        return nothing("device_limit", f"each running request went on at {each_says(each)}", unseen=unseen)
    told = (_limited(evidence), _slow_clock(evidence, unseen), _co_tenant(evidence, unseen))
    found = [item for item in told if item is not None]
    if found:
        return max(found, key=lambda item: item.score)
    share = evidence.limit_share
    if share is None:
        return nothing("device_limit", unseen=unseen)
    says = "no limit reason advanced" if share < RISE else "limit reasons no stronger than before"
    return nothing("device_limit", says, unseen=unseen)


def _limited(evidence: Evidence) -> Finding | None:
    """A reason that advances more than in the time before, as far as the clock explains the slowdown."""
    share, before = evidence.limit_share, evidence.limit_share_before
    if share is None or share - (before or 0.0) < RISE:
        return None
    usual = "" if before is None else f" (before: {before:.0%})"
    says = f"{evidence.limit_reason} active {share:.0%}{usual}"
    facts = (Fact("device.limit_seconds", round(share, 4), "ratio", says), *_clock(evidence))
    detail = evidence.limit_reason.replace("_", " ") or "clocks"
    if evidence.device_idle:
        idle = ("the device was idle; a limit slows it but keeps it busy",)
        return Finding("device_limit", WEAK, detail, facts, idle, remedy=_remedy(detail))
    explained = _explained(evidence)
    if explained is None:
        blind = (BEFORE_UNSEEN,) if before is None else ()
        score = POSSIBLE if before is None else LIKELY
        return Finding("device_limit", score, detail, facts, (), (*blind, CLOCK_UNSEEN), _remedy(detail))
    score, rest = (STRONG, ()) if explained >= MOST else _partly(evidence, explained)
    return Finding("device_limit", score, detail, facts, rest, remedy=_remedy(detail))


def _slow_clock(evidence: Evidence, unseen: tuple[str, ...]) -> Finding | None:
    """A busy device whose clock fell, and no reason says why: a locked clock, or a driver that tells none."""
    clock = evidence.clock_ratio
    if clock is None or clock >= CLOCK_FELL or evidence.device_idle is not False:
        return None
    explained = _explained(evidence)
    enough = explained is None or explained >= MOST
    score, rest = (LIKELY, ()) if enough else _partly(evidence, explained or 0.0)
    return Finding("device_limit", score, "clocks", _clock(evidence), rest, unseen, Remedy.CLOCKS)


def _partly(evidence: Evidence, explained: float) -> tuple[float, tuple[str, ...]]:
    """A clock that explains too little. Where a busy device draws as much less as it makes less, it is held back all
    the same: clocks that a limit switches on and off are told by their own."""
    power, progress = drawn(evidence), evidence.progress_ratio or 0.0
    rest = (f"at {evidence.clock_ratio or 0.0:.0%} of its clock it would make more than {progress:.0%}",)
    if power is not None and not evidence.frozen and _share_of(power.ratio, progress) >= MOST:
        return LIKELY, rest
    return POSSIBLE if explained >= PART else WEAK, rest


def _explained(evidence: Evidence) -> float | None:
    """How much of the slowdown the clock explains: a device at a share of its clock works at that share at least,
    decoding (bound by its memory) at more. Shares of a product are compared as logarithms."""
    clock, progress = evidence.clock_ratio, evidence.progress_ratio
    if clock is None or progress is None:
        return None
    return _share_of(clock, progress)


def _share_of(factor: float, progress: float) -> float:
    """How much of the loss of progress a fall to ``factor`` is."""
    return log(min(max(factor, STANDSTILL), 1.0)) / log(max(progress, STANDSTILL))


def _co_tenant(evidence: Evidence, unseen: tuple[str, ...]) -> Finding | None:
    """A new process on the device, and signs that it works there: one that only holds memory takes nothing."""
    foreign, usual = evidence.foreign, evidence.foreign_before or 0.0
    if foreign is None or foreign < SOME:
        return None
    if foreign < usual + SOME:
        return _old_co_tenant(evidence, foreign, unseen)
    says = f"foreign processes on the device: {foreign:.0f} (before: {usual:.0f})"
    fact = Fact("device.foreign_processes", foreign, "processes", says)
    against = _works_alone(evidence)
    if against:
        return Finding("device_limit", WEAK, "co-tenant", (fact,), (against,), unseen, Remedy.CO_TENANT)
    signs = (*_drew_more(evidence), *_waited(evidence))
    if not signs:
        return Finding("device_limit", POSSIBLE, "co-tenant", (fact,), (), (WHO_WORKED, *unseen), Remedy.CO_TENANT)
    score = SECONDED if len(signs) > 1 else LIKELY
    return Finding("device_limit", score, "co-tenant", (fact, *signs), (), (WHO_WORKED, *unseen), Remedy.CO_TENANT)


def _old_co_tenant(evidence: Evidence, foreign: float, unseen: tuple[str, ...]) -> Finding | None:
    """One that was there before may have begun to work: only where all signs say that somebody else does."""
    more, waited = _drew_more(evidence), _waited(evidence)
    if not more or not waited or _works_alone(evidence):
        return None
    says = f"foreign processes on the device: {foreign:.0f}, as before"
    fact = Fact("device.foreign_processes", foreign, "processes", says)
    facts = (fact, *more, *waited)
    return Finding("device_limit", HINTED, "co-tenant", facts, (), (WHO_WORKED, *unseen), Remedy.CO_TENANT)


def _works_alone(evidence: Evidence) -> str:
    """What says that the newcomer took no time of the device ("": nothing does)."""
    if evidence.device_idle:
        return "the device was idle: nobody worked on it"
    if evidence.frozen:
        return "nothing came out at all: who shares a device takes turns on it"
    if prompts_outweigh(evidence):
        return "the server's own prompts filled the steps"
    heavier = prompts_a_step(evidence)
    if heavier is not None and heavier >= OUTWEIGHS and prompts_explain(evidence) is not False:
        return f"each step held {heavier:.1f} times the usual prompt tokens of the server's own"
    if evidence.clock_ratio is not None and evidence.clock_ratio < CLOCK_FELL:
        return f"the device ran at {evidence.clock_ratio:.0%} of its clock"
    power, progress = drawn(evidence), evidence.progress_ratio
    if power is not None and progress is not None and _beyond(power.ratio, progress) < COLD:
        return f"{power.fact.says}: no more than the server's own {progress:.0%} of its steps takes"
    main = critical(evidence)
    if main.sync is not None and main.sync < WAITED and not main.worker_unseen:
        return f"the engine waited for the device only {main.sync:.0%} of the time"
    return ""


def _beyond(power: float, progress: float) -> float:
    """What the device drew in the time that the server's own work did not take, against its busy level."""
    return (power - progress) / (1.0 - progress)


def _drew_more(evidence: Evidence) -> tuple[Fact, ...]:
    power, progress = drawn(evidence), evidence.progress_ratio
    if power is None or progress is None:
        return ()
    says = f"{power.fact.says}, for {progress:.0%} of the server's usual progress"
    return (Fact(power.fact.signal, power.fact.value, power.fact.unit, says),)


def _waited(evidence: Evidence) -> tuple[Fact, ...]:
    main = critical(evidence)
    if main.sync is None or main.sync < WAITED:
        return ()
    says = f"the engine waited for the device {main.sync:.0%} of the time"
    return (Fact("host.thread_activity", round(main.sync, 4), "ratio", says),)


def _remedy(reason: str) -> Remedy:
    """By the words of NVML's reasons: sw power cap, hw power brake, hw thermal slowdown, hw slowdown ..."""
    if "thermal" in reason:
        return Remedy.THERMAL
    return Remedy.POWER if "power" in reason else Remedy.CLOCKS


def _clock(evidence: Evidence) -> tuple[Fact, ...]:
    clock = evidence.clock_ratio
    if clock is None:
        return ()
    return (Fact("device.clock_sm", round(clock, 4), "ratio", f"SM clock {clock:.0%} of usual"),)
