"""The one plain sentence that is always on screen."""

from __future__ import annotations

from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.detect import ACTIVE
from gaptop.valleys.model import CAUSE_NAMES, Assessment, Cause, LedgerRow, Valley
from gaptop.valleys.scope import tells_busy
from gaptop_collectors.target import place_of

THREADS_REMEDY: Final = "run `sudo gaptop record -o - | gaptop open -`"
STRAY: Final = 0.5
"""Seconds busy that a device may show by itself although it never worked."""

NO_LOSS: Final[frozenset[Cause]] = frozenset({"no_demand", "artefact"})
"""Nobody asked, or nothing was idle: these cost nothing."""

NO_ANSWER: Final = frozenset({"late", "failing", "absent", "refused"})


def sentence(timeline: Timeline, state: Assessment) -> str:
    """What to know now: that no server answers any longer, an open valley, else the last one, else that none was yet.
    Of what has ended: what cost most. Of several servers the valley's is named."""
    if not state.ended and (silent := _silent(timeline)):
        return silent
    several = sum(source.startswith("metrics/") for source in timeline.sources) > 1
    if state.ended and len(state.valleys) > 1:
        return _of_all(state, _threads_remedy(timeline), several)
    if state.valleys:
        going = [valley for valley in state.valleys if valley.end_s is None]
        valley = going[-1] if going else state.valleys[-1]
        at = f"{place_of(valley.server)}: " if several and valley.server else ""
        return at + _of(valley, state, _threads_remedy(timeline))
    return _none_yet(timeline, state)


def _of_all(state: Assessment, remedy: str, several: bool) -> str:
    """The cause that cost most tokens (where nobody knows tokens: most idle time, else it lasted longest), and its
    costliest valley."""
    costs: dict[Cause, tuple[float, float, float]] = {}
    for valley in state.valleys:
        if valley.verdict.cause not in NO_LOSS:
            before = costs.get(valley.verdict.cause, (0.0, 0.0, 0.0))
            tokens, idle, seconds = (sum(pair) for pair in zip(before, _cost(valley, state), strict=True))
            costs[valley.verdict.cause] = tokens, idle, seconds
    count = f"{len(state.valleys)} valleys"
    if not costs:
        longest = max(state.valleys, key=lambda valley: _reached(valley, state) - valley.start_s)
        at = _at(longest, several)
        return f"{count}, and nothing was lost in any; the longest, {at}{_argument(longest, state, remedy, 'it')}"
    worst = max(costs, key=lambda cause: costs[cause])
    mine = [valley for valley in state.valleys if valley.verdict.cause == worst]
    heaviest = max(mine, key=lambda valley: _cost(valley, state))
    tokens, idle, seconds = costs[worst]
    lost = f"about {tokens:.0f} tokens"
    if tokens < 1.0:
        seen = any(valley.idle_s is not None for valley in mine)
        lost = f"{idle:.1f} s of device time" if seen else f"{seconds:.1f} s whose cost was not seen"
    whom = "causes unknown" if worst == "unknown" else CAUSE_NAMES[worst]
    most = f"most was lost to {whom}, {lost} in {len(mine)} of {count}"
    return f"{most}; its costliest, {_at(heaviest, several)}{_argument(heaviest, state, remedy, 'it')}"


def _at(valley: Valley, several: bool) -> str:
    return f"at {place_of(valley.server)}, " if several and valley.server else ""


def _silent(timeline: Timeline) -> str:
    """Why nothing is known of the server now; "" while its metrics come, or those of another one."""
    said = []
    for source, view in sorted(timeline.sources.items()):
        health = view.health
        if not source.startswith("metrics/"):
            continue
        if health is None or health.state not in NO_ANSWER:
            return ""
        age = "" if view.newest is None else f"no reading of the server for {timeline.now - view.newest:.0f} s"
        said.append(": ".join(part for part in (age, health.says) if part))
    return said[0] if said else ""


def _threads_remedy(timeline: Timeline) -> str:
    """How to see the threads, where a right is all that lacks; a server without Python has no stacks to see."""
    if any(source.startswith("threads/") for source in timeline.sources):
        return " (not delivered for that time)"
    recorder = timeline.health.get("host.threads_pyspy")
    return f"; {THREADS_REMEDY}" if recorder is None or recorder.state == "refused" else ""


def _cost(valley: Valley, state: Assessment) -> tuple[float, float, float]:
    """For ranking and sums: tokens, device-seconds (what was not seen adds nothing), and how long it lasted."""
    return valley.tokens_lost or 0.0, valley.idle_s or 0.0, _reached(valley, state) - valley.start_s


def _of(valley: Valley, state: Assessment, remedy: str) -> str:
    going = "valley at the end, for" if state.ended else "valley now, for"
    when = going if valley.end_s is None else "last valley,"
    subject = "the valley that is open" if valley.end_s is None else "the last valley"
    if _unproved(valley):
        return _argument(valley, state, remedy, subject)
    return f"{when} {_argument(valley, state, remedy, subject)}"


def _reached(valley: Valley, state: Assessment) -> float:
    return state.now if valley.end_s is None else valley.end_s


def _unproved(valley: Valley) -> bool:
    return valley.verdict.cause == "unknown" or valley.verdict.confidence == "low"


def _argument(valley: Valley, state: Assessment, remedy: str, subject: str) -> str:
    """Its length, its cause and the first number for it; ``subject`` is what a sentence without a cause is about."""
    said = valley.verdict
    length = _reached(valley, state) - valley.start_s
    if _unproved(valley):
        # The threads would help wherever nothing fits; a named cause says itself what it lacks.
        lacks = said.unseen if said.cause == "unknown" else (said.doubt,)
        blind = any("threads not seen" in text or "stacks not seen" in text for text in lacks)
        reason = ("threads not seen" + remedy) if blind and remedy else said.doubt or "nothing fits"
        guess = "" if said.cause == "unknown" else f" ({CAUSE_NAMES[said.cause]} is only a guess)"
        return f"no cause proved for {subject}, {length:.1f} s{guess}: {reason}"
    name = CAUSE_NAMES[said.cause] + (f", {said.detail}" if said.detail else "")
    number = f": {said.evidence[0].says}" if said.evidence else ""
    provisional = "" if valley.final else ", provisional"
    lost = ""
    if said.cause == "no_demand":
        lost = "; not a fault"
    elif valley.tokens_lost is not None:
        lost = f"; about {valley.tokens_lost:.0f} tokens lost" if valley.tokens_lost >= 1 else "; no tokens lost"
    return f"{length:.1f} s: {name} ({said.confidence}{provisional}){number}{lost}"


def _none_yet(timeline: Timeline, state: Assessment) -> str:
    none = "no valley at all" if state.ended else "no valley yet"
    busy = {row.device: row for row in state.ledger if row.cause == "busy"}
    unjudged = {row.device: row for row in state.ledger if row.cause == "idle_before_work"}
    worked = [row for row in busy.values() if row.share_ratio is not None and _worked(row)]
    if worked:
        share = sum(row.share_ratio or 0.0 for row in worked) / len(worked)
        return f"{none}: device busy {share:.0%} over {state.now:.0f} s"
    if busy:
        seconds = max((row.device_seconds for row in unjudged.values()), default=0.0)
        return f"{none}: the device has not worked since the start ({seconds:.0f} s idle)"
    mute = [info for info in _devices(timeline) if not tells_busy(info) and info.unsupported.get("device.busy")]
    servers = tuple(source for source in sorted(timeline.sources) if source.startswith("metrics/"))
    rate = reading.rate(timeline, "tokens.decode", servers, max(0.0, state.now - 5.0), state.now)
    if rate is not None:
        seen = _mute(len(mute)) if mute else "no device seen"
        return f"{none}: {seen}, {rate:.4g} decode tokens a second"
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
