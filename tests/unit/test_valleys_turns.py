"""A standstill whose slices tell nothing of their own, and devices that stop or start in the middle of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import segments as cut
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather import Stretch
from gaptop.valleys.model import Cause, Finding
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import scopes

from .case_streams import does
from .valley_server import server
from .valley_streams import Curve, Stream, classify, only, stairs, total, valleys_of

START, TURN, END, LAST = 12.0, 18.0, 22.0, 30.0
STOPPED: Final = {
    "tokens__decode": total((0, 800), (START, 0), (END, 800)),
    "tokens__prompt": total((0, 100), (START, 0), (END, 100)),
    "step__count": total((0, 100), (START, 0), (END, 100)),
}
BUSY: Final = stairs((0, 1.0))
IDLES: Final = stairs((0, 1.0), (TURN, 0.0), (END, 1.0))


def two_ranks(first: Curve, second: Curve, *, error: float) -> Stream:
    """Two ranks whose stacks' edges are unsure by ``error``; the first one collects garbage from TURN on."""
    stream = Stream(LAST).metrics(server(**STOPPED), offset=0.5)
    power = stairs((0, 300), (START, 90), (END, 300))
    for rank, (busy, did) in enumerate(((first, does("gc", "collective", (TURN, END))), (second, does("collective")))):
        pid, name = 300 + rank, f"VLLM::Worker_TP{rank}"
        stream.device(busy, source=f"nvml/GPU-{rank}", power=power, pids=(pid,))
        stream.stacks(pid, "worker", did, name=name)
        entity = {
            "pid": pid,
            "role": "worker",
            "name": name,
            "critical_tid": pid,
            "threads": [{"tid": pid, "name": ""}],
        }
        stream.add(
            0.0,
            Source(
                0.0,
                f"threads/{pid}",
                "host.threads_pyspy",
                "process",
                entity,
                ["host.thread_activity"],
                0.05,
                error=error,
            ),
        )
    return stream


@pytest.mark.parametrize("error", [0.02, 0.4])
def test_a_wedge_that_a_late_rank_follows_is_both_also_where_slices_are_too_short_for_stacks(error: float) -> None:
    valley = only(valleys_of(two_ranks(IDLES, BUSY, error=error)), kind="progress")
    parts = valley.verdict.segments
    assert [part.cause for part in parts] == ["stalled_busy", "synchronisation"]
    assert parts[1].start_s == pytest.approx(TURN, abs=cut.SLICE)
    assert valley.verdict.cause == "stalled_busy"


def test_a_wedge_alone_stays_one() -> None:
    valley = only(valleys_of(two_ranks(BUSY, BUSY, error=0.4)), kind="progress")
    assert [part.cause for part in valley.verdict.segments] == ["stalled_busy"]


LONG: Final = 9.0


def judged(evidence: Evidence) -> tuple[Finding, ...]:
    """Says nothing of slices, of the whole that it waited, and of what lies between by its busyness alone."""
    assert evidence.frozen
    if evidence.length < 1.5 * cut.SLICE:
        return (Finding("unknown", 0.4),)
    if evidence.length > LONG:
        return (Finding("external_wait", 0.8),)
    assert evidence.busy is not None
    return (Finding("stalled_busy" if evidence.busy > 0.9 else "synchronisation", 0.8),)


def wave(low: float, high: float) -> Curve:
    """Half a second low, half a second high, within the standstill."""
    return lambda t: 1.0 if not START <= t < END else low if int(2 * t) % 2 else high


CASES: Final[dict[str, tuple[tuple[Curve, ...], Sequence[tuple[Cause, float]]]]] = {
    "busy all along": ((BUSY, BUSY), [("external_wait", END)]),
    "idle all along": ((stairs((0, 1.0), (START, 0.0), (END, 1.0)),), [("external_wait", END)]),
    "all stop": ((IDLES, IDLES), [("stalled_busy", TURN), ("synchronisation", END)]),
    "one of two stops": ((BUSY, IDLES), [("stalled_busy", TURN), ("synchronisation", END)]),
    "a stop and a start": (
        (stairs((0, 1.0), (14.0, 0.0), (TURN, 1.0)),),
        [("stalled_busy", 14.0), ("synchronisation", TURN), ("stalled_busy", END)],
    ),
    "less, but not idle": ((stairs((0, 1.0), (TURN, 0.6), (END, 1.0)),), [("external_wait", END)]),
    "up and down, and never idle": ((wave(0.55, 0.9),), [("external_wait", END)]),
    "idle, and up again to little more than half": (
        (lambda t: wave(0.4, 0.6)(t) if t >= TURN else 1.0,),
        [("stalled_busy", TURN + cut.SLICE), ("synchronisation", END)],
    ),
    "not seen any more": ((stairs((0, 1.0), (TURN, None)),), [("external_wait", END)]),
    "no device": ((), [("external_wait", END)]),
}


@pytest.mark.parametrize(("devices", "parts"), CASES.values(), ids=CASES)
def test_a_standstill_is_cut_where_devices_stop_or_start(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[Curve, ...], parts: Sequence[tuple[Cause, float]]
) -> None:
    monkeypatch.setattr(cut, "judge", judged)
    stream = Stream(LAST).metrics(server(**STOPPED), offset=0.5)
    for number, busy in enumerate(devices):
        stream.device(busy, source=f"nvml/GPU-{number}", window=0.1)
    timeline = Timeline(classify)
    for line in stream.lines():
        timeline.apply(line)
    (scope,) = (item for item in scopes(timeline) if item.metrics)
    stretch = Stretch("progress", START, END, tuple(item.source for item in scope.devices), None)
    found = cut.segments(timeline, scope, stretch, Reference(timeline, ((4.0, START),)), Finding("unknown", 0.4), 10.0)
    assert [(part.cause, part.end_s) for part in found] == list(parts)
