"""A critical thread that stays in one frame far longer than ever: perhaps a garbage collection, and said as such."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .valley_host import meanwhile, run_states
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Stream, only, stairs, valleys_of

MAYBE = "in one frame: may be a garbage collection"


def held(activity: str, *, still: bool, usual: str = "device_sync", engine: str = "vllm") -> Stream:
    """An engine that is in ``activity`` from LOW to BACK, and for a moment of each second before."""
    stream = Stream(END, engine=engine).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")

    def does(t: float) -> str:
        return activity if LOW <= t < BACK else usual if t % 1.0 < 0.5 else "device_sync"

    return stream.stacks(ENGINE, "engine", does, still=still)


def said(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


def running(stream: Stream) -> Stream:
    return run_states(stream, ENGINE, "engine", running=meanwhile(1.0, 0.3))


@pytest.mark.parametrize(
    ("activity", "name"), [("schedule", "scheduling"), ("prepare_batch", "batch preparation"), ("sample", "sampling")]
)
def test_one_frame_for_all_of_a_valley_may_be_a_collection_and_is_host_starvation_for_sure(
    activity: str, name: str
) -> None:
    verdict = said(running(held(activity, still=True)))
    assert (verdict.cause, verdict.confidence) == ("host_starvation", "high")
    assert verdict.detail == f"{name} {MAYBE}"
    (fact,) = [item for item in verdict.evidence if "one frame" in item.says]
    assert f"{activity} (a.py) for 3 s without a break" in fact.says
    assert "VLLM_GC_DEBUG=1" in verdict.advice
    assert "gc.freeze()" in verdict.advice


@pytest.mark.parametrize(("engine", "advises"), [("sglang", "--gc-warning-threshold-secs"), ("tgi", "gc.callbacks")])
def test_how_to_see_a_collection_is_said_in_the_engines_own_words(engine: str, advises: str) -> None:
    assert advises in said(running(held("schedule", still=True, engine=engine))).advice


def test_code_that_moves_on_is_no_collection() -> None:
    assert said(running(held("schedule", still=False))).detail == "scheduling"


@pytest.mark.parametrize("activity", ["log", "grammar", "launch"])
def test_what_spends_its_time_in_one_call_anyway_is_no_collection(activity: str) -> None:
    assert MAYBE not in said(running(held(activity, still=True))).detail


def test_a_thread_that_sleeps_in_its_frame_collects_nothing() -> None:
    stream = run_states(held("schedule", still=True), ENGINE, "engine", running=stairs((0, 0.1)), futex=meanwhile(0.9))
    assert MAYBE not in said(stream).detail


def test_what_often_stays_as_long_is_its_ordinary_work() -> None:
    # It stays for half of each second in ordinary times, and for a second more is no wonder.
    stream = Stream(END).device(stairs((0, 1.0), (LOW, 0.0), (LOW + 1.5, 1.0)))
    stream.metrics(server(**stopped_progress())).stacks(API, "api", lambda t: "idle")
    stream.stacks(
        ENGINE,
        "engine",
        lambda t: "schedule" if LOW <= t < LOW + 1.5 or t % 1.0 < 0.5 else "device_sync",
        still=True,
    )
    assert said(running(stream)).detail == "scheduling"
