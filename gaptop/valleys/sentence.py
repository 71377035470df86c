"""The one plain sentence that is always on screen."""

from __future__ import annotations

from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.detect import ACTIVE
from gaptop.valleys.model import CAUSE_NAMES, Assessment, LedgerRow, Valley
from gaptop.valleys.scope import tells_busy

THREADS_REMEDY: Final = "run `sudo gaptop record -o - | gaptop open -`"
STRAY: Final = 0.5
"""Seconds busy that a device may show by itself although it never worked."""

NO_ANSWER: Final = frozenset({"late", "failing", "absent", "refused"})


def sentence(timeline: Timeline, state: Assessment) -> str:
    """What to know now: a server that no longer answers, an open valley, else the last one, else that none was yet."""
    if not state.ended and (silent := _silent(timeline)):
        return silent
    if state.valleys:
        going = [valley for valley in state.valleys if valley.end_s is None]
        return _of(going[-1] if going else state.valleys[-1], state, _threads_remedy(timeline))
    return _none_yet(timeline, state)


def _silent(timeline: Timeline) -> str:
    """Why nothing is known of the server now; "" while its metrics come."""
    for source, view in sorted(timeline.sources.items()):
        health = view.health
        if source.startswith("metrics/") and health is not None and health.state in NO_ANSWER:
            age = "" if view.newest is None else f"no reading of the server for {timeline.now - view.newest:.0f} s"
            return ": ".join(part for part in (age, health.says) if part)
    return ""


def _threads_remedy(timeline: Timeline) -> str:
    """How to see the threads, where a right is all that lacks; a server without Python has no stacks to see."""
    if any(source.startswith("threads/") for source in timeline.sources):
        return " (not delivered for that time)"
    recorder = timeline.health.get("host.threads_pyspy")
    return f"; {THREADS_REMEDY}" if recorder is None or recorder.state == "refused" else ""


def _of(valley: Valley, state: Assessment, remedy: str) -> str:
    said = valley.verdict
    length = (state.now if valley.end_s is None else valley.end_s) - valley.start_s
    going = "valley at the end, for" if state.ended else "valley now, for"
    when = going if valley.end_s is None else "last valley,"
    if said.cause == "unknown" or said.confidence == "low":
        # The threads would help wherever nothing fits; a named cause says itself what it lacks.
        lacks = said.unseen if said.cause == "unknown" else (said.doubt,)
        blind = any("threads not seen" in text or "stacks not seen" in text for text in lacks)
        reason = ("threads not seen" + remedy) if blind and remedy else said.doubt or "nothing fits"
        guess = "" if said.cause == "unknown" else f" ({CAUSE_NAMES[said.cause]} is only a guess)"
        subject = "the valley that is open" if valley.end_s is None else "the last valley"
        return f"no cause proved for {subject}, {length:.1f} s{guess}: {reason}"
    name = CAUSE_NAMES[said.cause] + (f", {said.detail}" if said.detail else "")
    number = f": {said.evidence[0].says}" if said.evidence else ""
    provisional = "" if valley.final else ", provisional"
    lost = ""
    if said.cause == "no_demand":
        lost = "; not a fault"
    elif valley.tokens_lost is not None:
        lost = f"; about {valley.tokens_lost:.0f} tokens lost" if valley.tokens_lost >= 1 else "; no tokens lost"
    return f"{when} {length:.1f} s: {name} ({said.confidence}{provisional}){number}{lost}"


def _none_yet(timeline: Timeline, state: Assessment) -> str:
    busy = {row.device: row for row in state.ledger if row.cause == "busy"}
    unjudged = {row.device: row for row in state.ledger if row.cause == "idle_before_work"}
    worked = [row for row in busy.values() if row.share_ratio is not None and _worked(row)]
    if worked:
        share = sum(row.share_ratio or 0.0 for row in worked) / len(worked)
        return f"no valley yet: device busy {share:.0%} over {state.now:.0f} s"
    if busy:
        seconds = max((row.device_seconds for row in unjudged.values()), default=0.0)
        return f"no valley yet: the device has not worked since the start ({seconds:.0f} s idle)"
    mute = [info for info in _devices(timeline) if not tells_busy(info) and info.unsupported.get("device.busy")]
    servers = tuple(source for source in sorted(timeline.sources) if source.startswith("metrics/"))
    rate = reading.rate(timeline, "tokens.decode", servers, max(0.0, state.now - 5.0), state.now)
    if rate is not None:
        seen = _mute(len(mute)) if mute else "no device seen"
        return f"no valley yet: {seen}, {rate:.4g} decode tokens a second"
    if mute:
        return f"nothing measured yet: {_mute(len(mute))}: {mute[0].unsupported['device.busy']}"
    says = [health.says for health in timeline.health.values() if health.state != "ok" and health.says]
    return f"nothing measured yet: {says[0]}" if says else "nothing measured yet"


def _worked(busy: LedgerRow) -> bool:
    """Whether a device was busy for longer than an idle one shows by itself, or for a good part of what was seen of it:
    a source that shows one window of many tells few seconds of a device that works all the time."""
    return busy.device_seconds > STRAY or (busy.share_ratio or 0.0) > ACTIVE


def _devices(timeline: Timeline) -> list[Source]:
    return [view.info for _, view in sorted(timeline.sources.items()) if view.info.kind == "device"]


def _mute(count: int) -> str:
    if count == 1:
        return "the device tells no utilisation (N/A)"
    return f"the {count} devices tell no utilisation (N/A)"
