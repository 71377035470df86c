"""Two causes that look alike: what is asked to tell them apart, and what is not told from little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.valleys.evidence import Evidence, Gauge, ThreadView

from .valley_evidence import best, finding, steady

SYNCING = ThreadView("engine", "MainThread", True, {"device_sync": 1.0}, 0.99, 0.99, 0.0, 0.0)
SLOW = Evidence(
    kind="progress",
    engine="vllm",
    start=20.0,
    end=22.5,
    busy=1.0,
    busy_level=1.0,
    devices=1,
    power_ratio=1.0,
    energy_ratio=1.01,
    clock_ratio=1.0,
    limit_share=0.0,
    limit_share_before=0.0,
    foreign=1.0,
    foreign_before=1.0,
    running=steady(6.0, 6.0),
    waiting=steady(0.0, 0.1),
    limit=12.0,
    kv=steady(0.3, 0.3),
    preemptions=0.0,
    finished=10.0,
    tokens_every=0.5,
    decode_rate=64.0,
    decode_before=227.0,
    prompt_rate=1100.0,
    prompt_before=3280.0,
    prompt_flow=1100.0,
    prompt_late=True,
    prompt_settled=True,
    step_rate=11.4,
    step_before=41.3,
    inner_progress=0.28,
    threads=(SYNCING,),
    stacks_seen=True,
    states_seen=True,
)
"""Every step takes longer, at full power, and holds no more than usual; somebody else has long been on the device."""


def test_a_co_tenant_that_was_there_before_may_have_begun_to_work() -> None:
    said = best(SLOW)
    assert (said.cause, said.detail) == ("device_limit", "co-tenant")
    assert said.facts[0].says == "foreign processes on the device: 1, as before"


@pytest.mark.parametrize(
    "changes",
    [
        {"foreign": 0.0, "foreign_before": 0.0},
        {"energy_ratio": 0.3, "power_ratio": 0.3},
        {"threads": (replace(SYNCING, activities={"poll": 1.0}),)},
        {"clock_ratio": 0.8},
    ],
)
def test_it_is_not_blamed_unless_everything_says_that_somebody_works(changes: dict[str, object]) -> None:
    assert best(replace(SLOW, **changes)).detail != "co-tenant"  # type: ignore[arg-type]


HEAVIER = replace(SLOW, foreign_before=0.4, prompt_flow=4090.0, prompt_rate=4090.0, prompt_before=2110.0, limit=6.0)
"""The same, with five times the new prompt tokens in each step."""


def test_steps_that_hold_far_more_new_prompt_tokens_are_long_by_themselves() -> None:
    said = best(HEAVIER)
    assert said.cause == "prefill_interference"
    assert "times the usual prompt tokens" in finding(HEAVIER, "device_limit").against[0]


def test_a_batch_that_is_as_full_as_ever_is_not_what_changed() -> None:
    always = replace(HEAVIER, waiting=Gauge(1.0, 0.0, 2.0, 1.0, 1.0, 1.5))
    assert finding(always, "admission_stall").against == ("as many ran and waited before, while all went well",)
    grown = replace(HEAVIER, waiting=Gauge(9.0, 3.0, 12.0, 3.0, 12.0, 1.5))
    assert finding(grown, "admission_stall").score > finding(always, "admission_stall").score


FEWER = replace(
    SLOW,
    foreign=0.0,
    foreign_before=0.0,
    running=steady(7.0, 9.0),
    decode_rate=813.0,
    decode_before=1372.0,
    step_rate=155.0,
    step_before=153.0,
    prompt_flow=2980.0,
    prompt_before=3465.0,
)


def test_steps_as_fast_as_ever_with_fewer_tokens_lack_clients() -> None:
    said = best(FEWER)
    assert (said.cause, said.detail) == ("no_demand", "client-limited")
    assert said.facts[-1].says == "steps as fast as ever, with 58% of their usual tokens"


@pytest.mark.parametrize(
    "changes", [{"waiting": steady(3.0, 0.0)}, {"step_rate": 100.0}, {"running": steady(9.0, 9.0)}]
)
def test_clients_are_not_lacking_where_some_wait_or_steps_are_slow_or_as_many_run(changes: dict[str, Gauge]) -> None:
    assert finding(replace(FEWER, **changes), "no_demand").score == 0.0  # type: ignore[arg-type]


GONE = replace(
    SLOW,
    kind="utilisation",
    end=20.4,
    busy=0.1,
    foreign=0.0,
    foreign_before=0.0,
    connections=steady(0.0, 10.0),
    unread=steady(0.0, 0.0),
    decode_rate=20.0,
    prompt_flow=0.0,
    step_rate=4.0,
    inner_progress=None,
    threads=(ThreadView("engine", "", True, None, 0.03, 0.9, 0.0, 0.0),),
    stacks_seen=False,
)
"""A device that rests for less than a second, gauges of its last step, and nobody connected."""


def test_where_nobody_is_connected_any_more_a_resting_device_lacks_demand() -> None:
    said = best(GONE)
    assert (said.cause, said.detail) == ("no_demand", "queue empty")
    assert said.unseen


@pytest.mark.parametrize("left", [steady(10.0, 10.0), Gauge(0.5, 0.0, 2.0, 2.0, 0.0, 10.0), None])
def test_somebody_may_still_wait_where_one_was_connected_or_nobody_counted(left: Gauge | None) -> None:
    assert finding(replace(GONE, connections=left), "no_demand").score == 0.0


def test_a_full_batch_that_was_read_before_a_short_gap_is_not_its_cause() -> None:
    short = replace(GONE, connections=steady(8.0, 8.0), running=steady(12.0, 11.0), waiting=steady(1.0, 1.0))
    assert "may be an old one" in finding(short, "admission_stall").against[0]
    long = replace(short, end=23.0)
    assert not any("old one" in text for text in finding(long, "admission_stall").against)


IDLE_ENGINE = replace(
    GONE,
    connections=None,
    running=steady(0.0, 7.0),
    waiting=steady(0.0, 0.7),
    threads=(
        ThreadView("engine", "MainThread", True, {"await_requests": 0.95, "worker_wait": 0.05}, 0.2, 0.99, 0.0, 0.0),
        ThreadView("worker", "MainThread", True, {"device_sync": 0.87, "poll": 0.13}, 0.8, 0.05, 0.0, 0.0),
    ),
    stacks_seen=True,
)


def test_a_worker_that_is_still_in_a_sync_waits_for_nothing_once_the_engine_awaits_requests() -> None:
    said = best(IDLE_ENGINE)
    assert said.cause == "no_demand"
    [against] = finding(IDLE_ENGINE, "synchronisation").against
    assert against == "the engine itself awaited requests 95%: nothing was under way"


def test_an_engine_in_its_step_is_another_matter() -> None:
    stepping = replace(IDLE_ENGINE.threads[0], activities={"worker_wait": 1.0})
    said = best(replace(IDLE_ENGINE, threads=(stepping, IDLE_ENGINE.threads[1])))
    assert said.cause != "no_demand"
