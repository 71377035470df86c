"""Code that no rule knows on the critical thread: no verdict is sure beside it, and it is listed as unseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gaptop.valleys.causes.rule import HINTED, LIKELY
from gaptop.valleys.evidence import Evidence, ThreadView, Traffic
from gaptop.valleys.model import Verdict
from gaptop.valleys.verdict import judge

from .valley_evidence import steady
from .valley_host import meanwhile, run_states
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, valleys_of


def mixed(share: float, rest: str, **changes: Curve) -> Stream:
    """An engine in unknown code for a share of each second of its valley, else in ``rest``."""
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**{**stopped_progress(), **changes}))
    stream.stacks(API, "api", lambda t: "idle")

    def does(t: float) -> str:
        return ("other" if t % 1.0 < share else rest) if LOW <= t < BACK else "device_sync"

    return stream.stacks(ENGINE, "engine", does)


def said(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


@pytest.mark.parametrize(("share", "confidence"), [(0.1, "high"), (0.4, "medium")])
@pytest.mark.parametrize(("rest", "cause"), [("schedule", "host_starvation"), ("device_sync", "synchronisation")])
def test_much_unknown_code_keeps_a_verdict_from_being_sure(
    share: float, confidence: str, rest: str, cause: str
) -> None:
    ran = meanwhile(1.0 if rest == "schedule" else 0.3, 0.3)
    verdict = said(run_states(mixed(share, rest), ENGINE, "engine", running=ran))
    assert verdict.cause == cause
    listed = [text for text in verdict.unseen if "code that no rule knows, 40% of the time: other (a.py)" in text]
    assert bool(listed) == (share == 0.4)
    if cause == "host_starvation":
        assert verdict.confidence == confidence
    else:
        assert share == 0.1 or verdict.confidence != "high"


def test_a_valley_in_unknown_code_alone_is_host_starvation_and_not_sure() -> None:
    verdict = said(run_states(mixed(1.0, "idle"), ENGINE, "engine", running=meanwhile(1.0, 0.3)))
    assert (verdict.cause, verdict.detail) == ("host_starvation", "unrecognised code: other (a.py)")
    assert verdict.confidence == "medium"


def test_an_engine_that_sleeps_in_a_frame_of_its_own_without_requests_hides_nothing() -> None:
    stream = run_states(mixed(1.0, "idle", sched__running=quiet_between(8)), ENGINE, "engine", running=stairs((0, 0.1)))
    assert not [text for text in said(stream).unseen if "no rule knows" in text]


def partly(**did: float) -> tuple[ThreadView, ...]:
    """A critical thread by the shares of its time; on a core or not as ``view`` says."""
    return (ThreadView("engine", "engine", True, did, on_cpu=0.3, on_cpu_before=0.3, unrecognised="gather (g.py)"),)


def rested(threads: tuple[ThreadView, ...], **more: Any) -> Evidence:
    """A device that rests while requests run."""
    seen: dict[str, Any] = {"running": steady(8.0, 8.0), "waiting": steady(0.0, 0.0), "stacks_seen": True}
    seen |= {"decode_rate": 0.0, "decode_before": 800.0, "compilers": 0.0, "compilers_before": 0.0}
    return Evidence(
        "utilisation", "vllm", 10.0, 12.0, **{"busy": 0.05, "busy_level": 1.0, "threads": threads, **seen, **more}
    )


@pytest.mark.parametrize(
    ("did", "cause"),
    [
        ({"schedule": 0.35, "device_sync": 0.2, "other": 0.45}, "host_starvation"),
        ({"schedule": 0.2, "device_sync": 0.35, "other": 0.45}, "unknown"),
        ({"schedule": 0.15, "other": 0.85}, "unknown"),
    ],
)
def test_work_that_is_most_of_what_can_be_read_is_a_hint_and_no_more(did: dict[str, float], cause: str) -> None:
    found = judge(rested(partly(**did)))[0]
    assert found.cause == cause
    if cause != "unknown":
        assert found.score == HINTED
        assert found.unseen[0] == "what it did in code that no rule knows, 45% of the time"


@pytest.mark.parametrize(
    ("did", "cause"),
    [
        ({"compile": 0.2, "device_sync": 0.05, "other": 0.75}, "compiling"),
        ({"compile": 0.1, "device_sync": 0.15, "other": 0.75}, "host_starvation"),
        ({"compile": 0.05, "other": 0.95}, "host_starvation"),
    ],
)
def test_compile_frames_that_are_most_of_what_can_be_read_name_the_rest(did: dict[str, float], cause: str) -> None:
    computing = tuple(replace(item, on_cpu=1.0) for item in partly(**did))
    assert judge(rested(computing))[0].cause == cause
    assert judge(rested(computing, busy=0.9))[0].cause != "compiling"


@pytest.mark.parametrize(
    ("did", "more", "cause"),
    [
        ({"log": 0.4, "other": 0.6}, {}, "host_starvation"),
        ({"other": 1.0}, {"compilers_before": 0.2}, "host_starvation"),
        ({"other": 1.0}, {}, "compiling"),
    ],
)
def test_a_compiler_beside_unknown_code_explains_it_only_where_nothing_else_does(
    did: dict[str, float], more: dict[str, float], cause: str
) -> None:
    computing = tuple(replace(item, on_cpu=1.0) for item in partly(**did))
    assert judge(rested(computing, **{"compilers": 1.0, **more}))[0].cause == cause


@pytest.mark.parametrize(
    ("before", "score", "cause"), [(0.1, LIKELY, "host_starvation"), (1.0, HINTED, "synchronisation")]
)
def test_a_thread_that_is_always_on_a_core_may_wait_in_code_that_no_rule_knows(
    before: float, score: float, cause: str
) -> None:
    threads = tuple(replace(item, on_cpu=1.0, on_cpu_before=before) for item in partly(other=1.0))
    assert judge(rested(threads))[0].cause == "host_starvation"
    assert judge(rested(threads))[0].score == score
    copied = Traffic("device.pcie_rx", "to the device over PCIe", 12e9, 1e7)
    assert judge(rested(threads, moved=copied))[0].cause == cause
