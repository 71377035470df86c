"""What the rules say where the device or the server's gauges were not seen: less, and nothing surely wrong."""

from __future__ import annotations

import pytest

from gaptop.valleys.causes.admission_stall import admission_stall
from gaptop.valleys.causes.rule import LIKELY
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.model import Verdict

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, total, valleys_of

RARE = {"sched.running": "10 s", "sched.waiting": "10 s", "kv.used": "10 s"}


def unwatched(activity: str, **changes: Curve) -> Verdict:
    """Three seconds of a server whose device nobody sees and whose engine's thread does ``activity``."""
    stream = Stream(END).metrics(server(**changes))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine(activity))
    return only(valleys_of(stream), kind="progress").verdict


def slowed(decode: float, prompts: float, usual: float = 100) -> dict[str, Curve]:
    return {
        "tokens__decode": total((0, 800), (LOW, decode), (BACK, 800)),
        "tokens__prompt": total((0, usual), (LOW, prompts), (BACK, usual)),
        "step__count": total((0, 100), (LOW, decode / 8), (BACK, 100)),
    }


@pytest.mark.parametrize(
    ("activity", "changes", "cause"),
    [
        # A sync ends when the device is done: one in which no step ends for seconds waits for work that does not end.
        ("device_sync", stopped_progress(), "stalled_busy"),
        # A copy and a collective have an end of their own, and somebody else at the other one.
        ("copy", stopped_progress(), "synchronisation"),
        ("collective", stopped_progress(), "synchronisation"),
        # To wait for the device between steps is what every engine does, also while they are slow.
        ("device_sync", slowed(200, 25), "unknown"),
        ("copy", slowed(200, 25), "synchronisation"),
        # Prompts at their usual rate do not slow anything down.
        ("device_sync", slowed(200, 900, 700), "unknown"),
    ],
)
def test_a_sync_with_a_device_that_nobody_sees(activity: str, changes: dict[str, Curve], cause: str) -> None:
    said = unwatched(activity, **changes)
    assert (said.cause, said.confidence) == (cause, "low")
    assert any("device not seen" in text for text in said.unseen)


def test_prompts_that_were_booked_prove_no_prefill_without_the_device() -> None:
    said = unwatched("device_sync", **slowed(0, 4000))
    assert (said.cause, said.confidence) == ("prefill_interference", "medium")
    assert any(text.startswith("device not seen: a prefill keeps it busy") for text in said.unseen)


def test_the_same_prompts_beside_a_busy_device_are_sure() -> None:
    stream = Stream(END).device(stairs((0, 1.0))).metrics(server(**slowed(0, 4000)))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("device_sync"))
    said = only(valleys_of(stream), kind="progress").verdict
    assert (said.cause, said.confidence) == ("prefill_interference", "high")


def held(kind: str, activity: str) -> Verdict:
    """An idle device, and gauges that did not move meanwhile."""
    stream = Stream(END, engine=kind).device(quiet_between(1.0))
    stream.metrics(server(**stopped_progress()), refresh=RARE)
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine(activity))
    return only(valleys_of(stream), kind="utilisation").verdict


def test_an_engine_that_turns_without_a_step_holds_requests_that_it_may_not_run() -> None:
    said = held("vllm", "poll")
    assert (said.cause, said.confidence) == ("admission_stall", "low")
    assert said.detail == "stuck: nothing runs although the engine holds requests"
    assert "gauges move every 10 s" in said.unseen[0]


@pytest.mark.parametrize(
    ("kind", "activity"), [("sglang", "poll"), ("vllm", "await_requests"), ("vllm", "device_sync")]
)
def test_no_admission_stall_is_guessed_where_the_thread_proves_none(kind: str, activity: str) -> None:
    assert held(kind, activity).cause != "admission_stall"


@pytest.mark.parametrize(("running", "stuck"), [(0.5, True), (3.0, False)])
def test_a_reading_from_before_a_batch_ran_dry_does_not_hide_that_nothing_runs(running: float, stuck: bool) -> None:
    # Gauges that move every 40 steps: the first reading of a valley of four seconds is as old as the last steps.
    evidence = Evidence(
        kind="utilisation",
        engine="vllm",
        start=12.0,
        end=16.0,
        running=Gauge(mean=running, low=0.0, high=6.0, first=6.0, last=0.0, before=12.0),
        waiting=Gauge(mean=12.0 - running, low=6.0, high=12.0, first=6.0, last=12.0, before=0.0),
        limit=19.0,
        kv=Gauge(mean=0.1, low=0.0, high=0.1, first=0.1, last=0.0),
        decode_rate=0.0,
        decode_before=800.0,
        stacks_seen=True,
    )
    said = admission_stall(evidence)
    assert said.detail.startswith("stuck: nothing runs") is stuck
    assert (said.score >= LIKELY) is stuck


def test_a_batch_at_its_cap_is_kept_there_by_the_cap_and_not_by_memory() -> None:
    stream = Stream(END).device(quiet_between(1.0, 0.2))
    changes = {
        "sched__waiting": stairs((0, 0), (LOW, 9), (BACK, 0)),
        "sched__limit": stairs((0, 8)),
        "kv__used": stairs((0, 0.97)),
        "tokens__decode": total((0, 800), (LOW, 500), (BACK, 800)),
    }
    stream.metrics(server(**changes))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("idle", "device_sync"))
    said = only(valleys_of(stream), kind="utilisation").verdict
    assert (said.cause, said.detail) == ("admission_stall", "sequence cap")
    (because,) = (item.because for item in said.excluded if item.cause == "cache_pressure")
    assert "limit of 8" in because


def test_a_full_cache_under_a_batch_below_its_cap_stays_cache_pressure() -> None:
    stream = Stream(END).device(quiet_between(1.0, 0.2))
    changes = {
        "sched__running": stairs((0, 8), (LOW, 3), (BACK, 8)),
        "sched__waiting": stairs((0, 0), (LOW, 5), (BACK, 0)),
        "sched__limit": stairs((0, 8)),
        "kv__used": stairs((0, 0.6), (LOW, 0.98), (BACK, 0.6)),
        "tokens__decode": total((0, 800), (LOW, 300), (BACK, 800)),
    }
    stream.metrics(server(**changes))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("idle", "device_sync"))
    assert only(valleys_of(stream), kind="utilisation").verdict.cause == "cache_pressure"
