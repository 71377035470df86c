"""compiling: a kernel is compiled, a graph captured, or the server still warms up."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import CERTAIN, LIKELY, POSSIBLE, STRONG, nothing
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Fact, Finding

SHARE: Final = 0.3
"""Compile frames for this share of the time: ordinary serving shows none."""

COMPILER: Final = 1.0
CHILDREN: Final = 0.5
"""Cores that ended children of a server used: serving needs none, and a compiler may live shorter than our readings."""

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
    if frames and main.compiling is not None:
        says = f"the critical thread was in compile frames {main.compiling:.0%} of the time"
        facts = (*facts, Fact("host.thread_activity", round(main.compiling, 4), "ratio", says))
    if main.compiling is None:
        unseen = (*unseen, "threads not seen: compile frames")
    young = evidence.young_seconds is not None and evidence.young_seconds <= YOUNG
    if frames:
        return Finding("compiling", CERTAIN if len(facts) > 1 else STRONG + 0.05, "JIT", facts, unseen=unseen)
    if facts:
        against = []
        if main.compiling is not None:
            against.append(f"compile frames only {main.compiling:.0%}: the compiler held no step up")
        if evidence.compilers_before is not None and evidence.compilers_before >= COMPILER:
            against.append(f"{evidence.compilers_before:.0f} ran before as well")
        score = POSSIBLE if against or _children(evidence) else LIKELY + 0.1
        return Finding("compiling", score, "JIT", facts, tuple(against), unseen)
    if young and main.loading is not None and main.loading >= SHARE:
        fact = Fact("host.thread_activity", round(main.loading, 4), "ratio", f"loading frames {main.loading:.0%}")
        return Finding("compiling", STRONG, "start-up", (fact,))
    seen = [] if main.compiling is None else [f"compile frames {main.compiling:.0%}"]
    if evidence.compilers is not None:
        seen.append("no compiler ran")
    return nothing("compiling", *((", ".join(seen),) if seen else ()), unseen=unseen)


def _children(evidence: Evidence) -> bool:
    """Whether no compiler was seen, and children that nobody saw did as much as one."""
    rate, usual = evidence.children_rate, evidence.children_before or 0.0
    return (evidence.compilers or 0.0) < COMPILER and rate is not None and rate >= CHILDREN and usual < CHILDREN / 2
