"""From findings to a verdict: the highest score, ties by a stated order, confidence from margin and what was unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gaptop.valleys.advice import advice
from gaptop.valleys.causes import RULES
from gaptop.valleys.causes.artefact import OURS
from gaptop.valleys.causes.rule import LIKELY, STRONG
from gaptop.valleys.causes.unknown import FLOOR
from gaptop.valleys.chain import chain
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import CAUSE_NAMES, Confidence, Exclusion, Fact, Finding, Segment, Verdict
from gaptop.valleys.unread_code import unread_code

CLEAR: Final = 0.25
"""A runner-up this far behind does not share the same numbers."""

NARROW: Final = 0.10
"""Closer than this the order alone decides: the verdict is a guess, and says so."""

OUR_CALL: Final = "what it would have been without gaptop's own call to the driver, which was slow at that time"

FEW_SAMPLES: Final = "what the thread did besides: only a few samples of its stacks fell so near to so short a gap"

PENDING: Final = "pending"
"""The detail of an unknown verdict that was said before the sources had told of that time."""

COMES: Final = "Nothing yet: the verdict follows when they come."

SCORE_DIGITS: Final = 3


def judge(evidence: Evidence) -> tuple[Finding, ...]:
    """All findings, best first; equal scores in the order of the rules."""
    findings = [rule(evidence) for rule in RULES]
    order = {id(finding): index for index, finding in enumerate(findings)}
    return tuple(sorted(findings, key=lambda item: (-round(item.score, SCORE_DIGITS), order[id(item)])))


def verdict(evidence: Evidence, segments: Sequence[Segment], *, confirmed: bool, mixed: bool = False) -> Verdict:
    """The whole argument about one stretch. ``mixed``: its segments have other causes too, that cost about as much."""
    findings = judge(evidence)
    best = findings[0]
    others = [item for item in findings[1:] if item.cause != "unknown" and item.score > 0.0]
    runner = others[0] if others else None
    untold = (*_ours(evidence), *unread_code(evidence), *_few(evidence, best))
    unseen = (*untold, *_unseen(best, findings))
    confidence = _confidence(best, runner, confirmed)
    if confidence == "high" and (untold or mixed):
        confidence = "medium"
    return Verdict(
        cause=best.cause,
        detail=best.detail,
        confidence=confidence,
        score=round(best.score, SCORE_DIGITS),
        runner_up=None if runner is None else (runner.cause, round(runner.score, SCORE_DIGITS)),
        evidence=_worded(evidence, best.facts),
        excluded=_excluded(findings[1:]),
        unseen=unseen,
        advice=advice(best.cause, best.remedy, evidence.engine),
        chain=chain(evidence, best),
        segments=tuple(segments) or (Segment(evidence.start, evidence.end, best.cause),),
        doubt=_doubt(best, runner) if confidence == "low" else "",
    )


def pending(said: Verdict, awaited: Sequence[str]) -> Verdict:
    """The verdict while ``awaited`` (what has told less than half of that time) is still to come: that nothing fits
    says nothing then. A cause that fits already stands, as provisional."""
    if said.cause != "unknown" or not awaited:
        return said
    doubt = too_early(awaited)
    return replace(said, detail=PENDING, doubt=doubt, unseen=(doubt,), advice=COMES)


def too_early(awaited: Sequence[str]) -> str:
    """Why it is too early for a verdict."""
    return f"too early to say: {', '.join(awaited)} of that time still to come"


def _ours(evidence: Evidence) -> tuple[str, ...]:
    """What is to be said where our own reading of the device may have made the valley, or bent its reading."""
    if evidence.slow_calls or (evidence.own_share is not None and evidence.own_share >= OURS):
        return (OUR_CALL,)
    return ()


def _few(evidence: Evidence, best: Finding) -> tuple[str, ...]:
    """What is to be said where a gap is so short that its stacks are a few samples about it, and nothing else says as
    much."""
    if not any(item.few for item in evidence.threads):
        return ()
    threads = tuple(replace(item, activities=None) if item.few else item for item in evidence.threads)
    seen = any(item.activities is not None for item in threads)
    same = judge(replace(evidence, threads=threads, stacks_seen=seen))[0].cause == best.cause
    return () if same else (FEW_SAMPLES,)


def _worded(evidence: Evidence, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The facts, those on threads with what they are shares of where only a few samples were seen."""
    if not any(item.few for item in evidence.threads):
        return facts
    return tuple(
        replace(fact, says=f"{fact.says} (of the few samples about so short a gap)")
        if fact.signal == "host.thread_activity"
        else fact
        for fact in facts
    )


def _confidence(best: Finding, runner: Finding | None, confirmed: bool) -> Confidence:
    if best.cause == "unknown":
        return "low"
    margin = best.score - max(runner.score if runner is not None else 0.0, FLOOR)
    if best.score >= STRONG and margin >= CLEAR and not best.unseen and confirmed:
        return "high"
    if best.score >= LIKELY - NARROW and margin >= NARROW:
        return "medium"
    return "low"


def _doubt(best: Finding, runner: Finding | None) -> str:
    """What made the confidence low: a score that does not reach, or a runner-up that comes too close."""
    if best.cause == "unknown":
        return best.unseen[0] if best.unseen else "nothing fits what was seen"
    if runner is not None and runner.score > best.score - NARROW:
        other = CAUSE_NAMES[runner.cause] + (f" ({runner.detail})" if runner.detail else "")
        return f"{other} explains it nearly as well"
    if best.unseen:
        return best.unseen[0]
    return best.against[0] if best.against else "it fits, and no more"


def _excluded(findings: Sequence[Finding]) -> tuple[Exclusion, ...]:
    """Causes that a number speaks against; one that merely was not seen is not excluded."""
    return tuple(
        Exclusion(item.cause, "; ".join(item.against))
        for item in findings
        if item.cause != "unknown" and item.against and item.score < FLOOR
    )


def _unseen(best: Finding, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What the best cause could not see first, then what kept others from being judged at all."""
    names = list(best.unseen)
    for item in findings:
        if item.score < FLOOR and not item.against:
            names.extend(f"{text} ({item.cause})" for text in item.unseen if text not in names)
    return tuple(dict.fromkeys(names))
