"""Gaps that are shorter than the doubt of the stacks: what a few samples about them tell, and what they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gaptop.valleys.model import Verdict

from .valley_server import server
from .valley_streams import API, ENGINE, WORKER, Stream, only, stairs, total, valleys_of

GAP = 20.0
ERROR = 0.3
FEW = "only a few samples of its stacks fell so near to so short a gap"


def paused(seconds: float) -> Stream:
    """A server that takes no step for a moment between two readings of its gauges, so that these tell nothing of it."""
    back = GAP + seconds
    stream = Stream(30).device(stairs((0, 1.0), (GAP, 0.0), (back, 1.0)))
    curves = server(
        tokens__decode=total((0, 800), (GAP, 0), (back, 800)),
        step__count=total((0, 100), (GAP, 0), (back, 100)),
    )
    return stream.metrics(curves, offset=0.45).stacks(API, "api", lambda t: "idle")


def does(
    activity: str, seconds: float, otherwise: Callable[[float], str] = lambda t: "device_sync"
) -> Callable[[float], str]:
    return lambda t: activity if GAP <= t < GAP + seconds else otherwise(t)


def said(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


@pytest.mark.parametrize(
    ("activity", "cause"),
    [
        ("await_requests", "no_demand"),
        ("compile", "compiling"),
        ("schedule", "host_starvation"),
        ("copy", "synchronisation"),
    ],
)
def test_what_an_engine_hardly_ever_does_tells_of_a_gap_beside_which_it_was_seen(activity: str, cause: str) -> None:
    verdict = said(paused(0.4).stacks(ENGINE, "engine", does(activity, 0.4), error=ERROR))
    assert verdict.cause == cause
    assert verdict.confidence == "medium"
    assert [text for text in verdict.unseen if FEW in text]
    told = [fact.says for fact in verdict.evidence if fact.signal == "host.thread_activity"]
    assert told
    assert all(text.endswith("(of the few samples about so short a gap)") for text in told)


@pytest.mark.parametrize("activity", ["device_sync", "other"])
def test_what_it_always_does_and_code_that_no_rule_knows_tell_nothing_of_a_short_gap(activity: str) -> None:
    assert said(paused(0.25).stacks(ENGINE, "engine", does(activity, 0.25), error=ERROR)).cause == "unknown"


def test_work_that_ordinary_time_shows_as_well_may_be_there_by_chance() -> None:
    steps = does("schedule", 0.4, lambda t: "schedule" if t % 1.0 < 0.25 else "device_sync")
    assert said(paused(0.4).stacks(ENGINE, "engine", steps, error=ERROR)).cause == "unknown"


def test_of_several_ranks_all_must_have_been_at_it() -> None:
    ranks = paused(0.4).stacks(WORKER, "worker", does("prepare_batch", 0.4), error=ERROR)
    both = paused(0.4).stacks(WORKER, "worker", does("prepare_batch", 0.4), error=ERROR)
    ranks.stacks(WORKER + 1, "worker", lambda t: "device_sync", error=ERROR)
    both.stacks(WORKER + 1, "worker", does("prepare_batch", 0.4), error=ERROR)
    assert said(ranks).cause != "host_starvation"
    assert said(both).cause == "host_starvation"


def test_awaiting_that_left_no_other_device_time_idle_fell_into_the_gap() -> None:
    # Awaiting is nothing rare there, but the device was busy whenever else it was near.
    often = does("await_requests", 0.4, lambda t: "await_requests" if 5 <= t < 19 else "device_sync")
    assert said(paused(0.4).stacks(ENGINE, "engine", often, error=ERROR)).cause == "no_demand"


@pytest.mark.parametrize(("seconds", "cause"), [(0.9, "synchronisation"), (0.5, "unknown")])
def test_a_sync_that_goes_on_from_well_before_a_gap_to_well_after_it_is_what_filled_it(
    seconds: float, cause: str
) -> None:
    def steps(t: float) -> str:
        return "sample" if t % 5.0 < 0.4 and not GAP - 2 < t < GAP + 3 else "device_sync"

    assert said(paused(seconds).stacks(ENGINE, "engine", steps, error=0.6)).cause == cause


def test_only_a_whole_gap_is_told_by_the_samples_beside_it() -> None:
    """Beside a part of a valley lies another part, that may have another cause."""
    then = does("schedule", 3.0)
    stream = paused(3.0).stacks(ENGINE, "engine", does("compile", 2.2, then), error=ERROR)
    verdict = said(stream)
    assert verdict.cause == "compiling"
    assert not [text for text in verdict.unseen if FEW in text]
