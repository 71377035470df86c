"""What an analysis would say of the canned minute, written out, so that pictures do not change with the rules."""

from __future__ import annotations

from gaptop.recording.lines import Line, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.model import (
    LINKS,
    Assessment,
    Cause,
    Confidence,
    Exclusion,
    Fact,
    LedgerRow,
    Link,
    Plateau,
    Valley,
    Verdict,
)
from tests.screenshots.canned import DEVICE, EPISODES


class CannedAnalysis:
    """Stands for ``valleys.analyst.Analyst``: a valley is seen half a second after its edge."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._said = Assessment(0.0)

    def apply(self, line: Line) -> Assessment | None:
        if not isinstance(line, Tick):
            return None
        self._said = assess(line.t)
        return self._said

    def finish(self) -> Assessment:
        return self._said


def assess(now: float) -> Assessment:
    """Everything said at that tick."""
    valleys = tuple(
        _valley(index, start, end, what, now) for index, (start, end, what) in enumerate(EPISODES) if start + 0.5 <= now
    )
    if not valleys:
        return Assessment(now, sentence="The device is busy: no valley so far.")
    last = valleys[-1]
    title = {
        "no_demand": "nothing was asked for",
        "cache_pressure": "the KV cache is full",
    }
    because = title.get(last.verdict.cause, f"of {last.verdict.detail}")
    sentence = f"The device last went idle for {(last.end_s or now) - last.start_s:.1f} s because {because}."
    ledger = tuple(
        LedgerRow(DEVICE, cause, 1, seconds, tokens, seconds / max(now, 1.0))
        for cause, seconds, tokens in (
            ("cache_pressure", 5.5, 4410.0),
            ("host_starvation", 1.7, 1400.0),
            ("prefill_interference", 0.1, 1900.0),
            ("no_demand", 3.8, 0.0),
        )
    )
    plateaus = (Plateau(DEVICE, 26.0, 30.0, 0.93, 0.002),) if now > 31 else ()
    return Assessment(now, valleys, plateaus, ledger, sentence)


def _valley(index: int, start: float, end: float, what: str, now: float) -> Valley:
    closed = now >= end + 0.3
    cause: Cause = {
        "silence": "no_demand",
        "prefill": "prefill_interference",
        "cache": "cache_pressure",
        "host": "host_starvation",
    }[what]  # type: ignore[assignment]
    confidence: Confidence = "high" if what in ("cache", "silence") else "medium"
    idle = (min(now, end) - start) * {"prefill": 0.03, "cache": 0.78}.get(what, 0.95)
    return Valley(
        id=f"v{index}",
        kind="progress" if what == "prefill" else "utilisation",
        devices=(DEVICE,),
        start_s=start,
        end_s=end if closed else None,
        start_error_s=0.1,
        end_error_s=0.1,
        depth_ratio=0.78 if what == "cache" else 0.95,
        idle_s=idle,
        idle_error_s=0.2,
        confirmed=True,
        tokens_lost=0.0 if what == "silence" else 630.0 * (min(now, end) - start),
        final=now >= end + 3.0,
        verdict=_verdict(cause, confidence),
    )


_SAID: dict[str, tuple[str, tuple[Fact, ...], tuple[Exclusion, ...], str]] = {
    "no_demand": (
        "queue empty",
        (
            Fact("sched.running", 0.0, "requests", "running 0 and waiting 0 throughout"),
            Fact("host.thread_activity", 0.98, "ratio", "front end idle 98 % of the time"),
        ),
        (Exclusion("host_starvation", "no thread did any work"),),
        "Nothing to fix here: send more work, or let the device sleep. A larger batch cannot fill an empty queue.",
    ),
    "prefill_interference": (
        "long prefill blocks decode",
        (
            Fact("tokens.prompt", 5200.0, "tokens", "prompt tokens 5 200/s, 21 times the usual"),
            Fact("tokens.decode", 60.0, "tokens", "decode 820 → 60 tok/s"),
        ),
        (Exclusion("cache_pressure", "KV at most 0.36"), Exclusion("admission_stall", "nothing was waiting")),
        "Lower --max-num-batched-tokens so that a long prompt is cut into smaller chunks.",
    ),
    "cache_pressure": (
        "preemption thrash",
        (
            Fact("kv.used", 0.98, "ratio", "KV 0.96–0.99 for 6.8 s"),
            Fact("sched.running", 7.0, "requests", "running 24 → 7 while waiting 0 → 17"),
            Fact("sched.preemptions", 14.0, "preemptions", "14 preemptions, seen 1.5 s late"),
        ),
        (
            Exclusion("no_demand", "17 requests were waiting"),
            Exclusion("admission_stall", "the cap of 64 was not reached"),
            Exclusion("host_starvation", "the engine thread waited for the device 82 % of the time"),
        ),
        "Raise --gpu-memory-utilization or lower --max-num-seqs. A larger batch will not help.",
    ),
    "host_starvation": (
        "garbage collection",
        (Fact("host.thread_activity", 0.97, "ratio", "engine thread in gc 97 % of the valley, on a core"),),
        (Exclusion("no_demand", "16 requests were running"), Exclusion("synchronisation", "no wait on the device")),
        "Freeze long-lived objects after start-up (gc.freeze), or raise the collection thresholds.",
    ),
}
_BLOCKED = {
    "no_demand": "arrivals",
    "prefill_interference": "step preparation",
    "cache_pressure": "KV blocks",
    "host_starvation": "step preparation",
}


def _verdict(cause: Cause, confidence: Confidence) -> Verdict:
    detail, facts, excluded, advice = _SAID[cause]
    says = {"arrivals": "none", "KV blocks": "0.98"}
    chain = tuple(
        Link(link, "blocked", "", None, says.get(link, ""))
        if link == _BLOCKED[cause]
        else Link(link, "fine", "", None, "starved" if link == "device" else "ok")
        for link in LINKS
    )
    runner_up: tuple[Cause, float] = ("unknown", 0.2) if cause != "cache_pressure" else ("prefill_interference", 0.31)
    return Verdict(
        cause=cause,
        detail=detail,
        confidence=confidence,
        score=0.92 if confidence == "high" else 0.7,
        runner_up=runner_up,
        evidence=facts,
        excluded=excluded,
        unseen=("SM activity: this GPU has no GPM",) if cause == "cache_pressure" else (),
        advice=advice,
        chain=chain,
        segments=(),
    )
