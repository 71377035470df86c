"""compiling: a kernel is compiled, a graph captured, or the server still warms up."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    SECONDED,
    STRONG,
    UNTOUCHED,
    WEAK,
    WITNESSED,
    by_frames,
    nothing,
    quiet,
)
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather_frames import GRAPH_CAPTURE, WAKE_UP, WARM_UP
from gaptop.valleys.host_view import critical, known_work
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

SHARE: Final = 0.3
"""Compile frames for this share of the time: ordinary serving shows none."""

MOST: Final = 0.5
"""In less of the time than this, something else may have held it up for longer."""

SOME_FRAMES: Final = 0.1
"""Less of it may be a lookup of what was compiled before."""

COMPILER: Final = 1.0
RAN: Final = 0.1
"""Compiler processes on average in ordinary time: some ran for a part of it."""

CHILDREN: Final = 0.5
"""Cores that ended children of a server used: serving needs none, and a compiler may live shorter than our readings."""

JUST_WOKEN: Final = 2.0
"""Seconds that the first step after a wake-up may still take."""

YOUNG: Final = 60.0
"""Seconds after a restart in which loading counts as start-up."""


def compiling(evidence: Evidence) -> Finding:
    main = critical(evidence)
    facts: tuple[Fact, ...] = ()
    unseen: tuple[str, ...] = ()
    if evidence.compilers is not None and evidence.compilers >= COMPILER:
        says = f"{evidence.compilers:.0f} compiler processes ran under the server"
        facts = (Fact("host.compilers", evidence.compilers, "processes", says),)
    elif evidence.compilers is None:
        unseen = ("compiler processes not seen",)
    if not facts and _children(evidence):
        says = f"children that ended used {evidence.children_rate:.1f} cores, as short-lived compilers do"
        facts = (Fact("host.children_seconds", evidence.children_rate, "cores", says),)
    frames = main.compiling is not None and main.compiling >= SHARE
    if not facts and not frames and (read := _as_far_as_read(evidence)) is not None:
        return read
    if frames and main.compiling is not None:
        says = f"the critical thread was in compile frames {main.compiling:.0%} of the time"
        facts = (*facts, Fact("host.thread_activity", round(main.compiling, 4), "ratio", says))
    if main.compiling is None:
        unseen = (*unseen, "threads not seen: compile frames")
    young = evidence.young_seconds is not None and evidence.young_seconds <= YOUNG
    if frames:
        detail, remedy = _by_frames(evidence, main.compiling or 0.0)
        score = CERTAIN if len(facts) > 1 else WITNESSED
        if main.compiling is not None and main.compiling < MOST:
            score = SECONDED
        return Finding("compiling", score, detail, facts, unseen=unseen, remedy=remedy)
    woken = by_frames(evidence, WAKE_UP)
    if woken >= SHARE:
        says = f"the engine was waking up {woken:.0%} of the time"
        fact = Fact("host.thread_activity", round(woken, 4), "ratio", says)
        return Finding("compiling", WITNESSED, "sleep-wake", (fact,), remedy=Remedy.WAKE_UP)
    if facts:
        against = []
        if (worked := known_work(main)) >= SHARE:
            against.append(f"the critical thread did other work {worked:.0%} of the time, as far as its code is known")
        elif main.compiling is not None and main.compiling + _unknown_code(evidence) >= SHARE:
            unseen = (*unseen, "whether the code that no rule knows is what called the compiler")
            if (evidence.compilers_before or 0.0) >= RAN:
                against.append("compilers ran in ordinary time as well, and held nothing up")
        elif main.compiling is not None:
            against.append(f"compile frames only {main.compiling:.0%}: the compiler held no step up")
        if evidence.compilers_before is not None and evidence.compilers_before >= COMPILER:
            against.append(f"{evidence.compilers_before:.0f} ran before as well")
        unharmed = _unharmed(evidence)
        score = WEAK if unharmed else POSSIBLE if against or _children(evidence) else SECONDED
        return Finding("compiling", score, "JIT", facts, (*unharmed, *against), unseen)
    if young and main.loading is not None and main.loading >= SHARE:
        fact = Fact("host.thread_activity", round(main.loading, 4), "ratio", f"loading frames {main.loading:.0%}")
        return Finding("compiling", STRONG, "start-up", (fact,), remedy=Remedy.START_UP)
    awake = evidence.awake_for
    if awake is not None and awake <= evidence.still + JUST_WOKEN and evidence.frozen and not quiet(evidence):
        fact = Fact("sched.sleeping", round(awake, 2), "seconds", f"the engine woke up {awake:.1f} s before its end")
        return Finding("compiling", LIKELY, "sleep-wake", (fact,), unseen=unseen, remedy=Remedy.WAKE_UP)
    seen = [] if main.compiling is None else [f"compile frames {main.compiling:.0%}"]
    if evidence.compilers is not None:
        seen.append("no compiler ran")
    return nothing("compiling", *((", ".join(seen),) if seen else ()), unseen=unseen)


def _by_frames(evidence: Evidence, compiling: float) -> tuple[str, Remedy]:
    """What most of the compile frames were about, as the frames around them tell."""
    for kind, remedy in ((GRAPH_CAPTURE, Remedy.GRAPH_CAPTURE), (WARM_UP, Remedy.WARM_UP)):
        if by_frames(evidence, kind) >= 0.5 * compiling:
            return kind, remedy
    return "JIT", Remedy.USUAL


def _unknown_code(evidence: Evidence) -> float:
    """The largest share of a critical thread's time in code that no rule knows."""
    seen = [item.activities for item in evidence.threads if item.critical and item.activities is not None]
    return max((item.get("other", 0.0) for item in seen), default=0.0)


def _as_far_as_read(evidence: Evidence) -> Finding | None:
    """A thread that compiles and is in code that no rule knows: ordinary serving shows no compile frames, so that both
    are most likely one thing. Only where the device idles, and they are most of what can be read."""
    for item in evidence.threads:
        did = item.activities or {}
        share, strange = did.get("compile", 0.0), did.get("other", 0.0)
        if not item.critical or evidence.device_idle is not True or share + strange < MOST:
            continue
        if share >= SOME_FRAMES and share >= MOST * (1.0 - strange):
            says = (
                f"critical thread {item.name} was in compile frames {share:.0%} of the time, and {strange:.0%} in code"
            )
            fact = Fact("host.thread_activity", round(share, 4), "ratio", f"{says} that no rule knows")
            return Finding("compiling", LIKELY + 0.05, "JIT", (fact,))
    return None


def _unharmed(evidence: Evidence) -> tuple[str, ...]:
    """What says that nothing waited for the compiler: who waits for a kernel launches none."""
    progress = evidence.progress_ratio
    if progress is not None and progress >= UNTOUCHED:
        return (f"steps went on at {progress:.0%} of the usual beside the compiler",)
    if evidence.device_idle is False:
        return (f"the device was busy {evidence.busy:.0%} beside the compiler",)
    return ()


def _children(evidence: Evidence) -> bool:
    """Whether no compiler was seen, and children that nobody saw did as much as one."""
    rate, usual = evidence.children_rate, evidence.children_before or 0.0
    return (evidence.compilers or 0.0) < COMPILER and rate is not None and rate >= CHILDREN and usual < CHILDREN / 2
