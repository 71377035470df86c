"""Pressure on the KV cache that its use alone does not show, and what looks like it and is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.valleys.evidence import Cores, Evidence, Gauge, ThreadView, Traffic
from gaptop.valleys.gather_recompute import recomputed_flow
from gaptop.valleys.reference import Reference

from .valley_evidence import best, finding, gauge, steady
from .valley_server import server
from .valley_streams import Stream, analyse, stairs, total

SYNCING = ThreadView("engine", "MainThread", True, {"device_sync": 1.0}, 0.05, 0.05, 0.0, 0.0)
AFTER_THRASH = Evidence(
    kind="progress",
    engine="vllm",
    start=20.6,
    end=22.1,
    busy=1.0,
    busy_level=1.0,
    devices=1,
    running=gauge(39.0, first=57.0, last=36.0, before=57.0),
    waiting=gauge(19.0, first=38.0, last=4.0, before=11.0),
    limit=126.0,
    kv=gauge(0.44, first=0.69, last=0.42, before=0.53),
    preemptions=38.0,
    recomputed_flow=5270.0,
    finished=65.0,
    decode_rate=248.0,
    decode_before=1910.0,
    prompt_rate=497.0,
    prompt_before=1411.0,
    prompt_flow=497.0,
    prompt_late=True,
    prompt_settled=True,
    step_rate=6.7,
    step_before=38.1,
    inner_progress=0.16,
    threads=(SYNCING,),
    stacks_seen=True,
    states_seen=True,
)
"""Others have gone, the cache has room again, and what was thrown back before is computed again."""


def test_what_was_thrown_back_is_computed_again_beside_a_cache_with_room() -> None:
    said = best(AFTER_THRASH)
    assert (said.cause, said.detail) == ("cache_pressure", "recompute after preemption")
    assert any("5270 tokens/s computed again" in fact.says for fact in said.facts)


@pytest.mark.parametrize("again", [None, 0.0, 300.0])
def test_without_much_to_compute_again_a_cache_with_room_is_no_pressure(again: float | None) -> None:
    said = finding(replace(AFTER_THRASH, recomputed_flow=again), "cache_pressure")
    assert said.score == 0.0
    assert said.against == ("KV use at most 69%",)


@pytest.mark.parametrize("unseen", ["prompt_flow", "decode_before"])
def test_what_is_computed_again_outweighs_nothing_that_was_not_seen(unseen: str) -> None:
    blind = replace(AFTER_THRASH, **{unseen: None})  # type: ignore[arg-type]
    assert finding(blind, "cache_pressure").detail != "recompute after preemption"


NEW_PROMPTS = replace(
    AFTER_THRASH,
    running=steady(127.0, 126.0),
    waiting=steady(3.0, 0.5),
    limit=256.0,
    kv=steady(0.97, 0.58),
    preemptions=8.0,
    recomputed_flow=900.0,
    decode_rate=1187.0,
    decode_before=1653.0,
    prompt_rate=3586.0,
    prompt_before=2964.0,
    prompt_flow=3586.0,
    step_rate=9.3,
    step_before=26.7,
    inner_progress=0.35,
)
"""A cache that is full, a batch that is no smaller, and steps that take three times as long."""


def test_a_full_cache_is_not_the_reason_where_new_prompts_made_the_steps_long() -> None:
    said = best(NEW_PROMPTS)
    assert said.cause == "prefill_interference"
    [against] = finding(NEW_PROMPTS, "cache_pressure").against
    assert against.startswith("the full cache cost about 20% of the progress lost")


def test_steps_that_are_long_without_new_prompts_take_nothing_from_a_full_cache() -> None:
    longer = replace(NEW_PROMPTS, prompt_flow=300.0, prompt_rate=300.0)
    assert finding(longer, "cache_pressure").against == ()
    assert best(longer).cause == "cache_pressure"


@pytest.mark.parametrize("unseen", ["prompt_flow", "recomputed_flow", "step_rate", "running"])
def test_nothing_is_weighed_with_what_was_not_seen(unseen: str) -> None:
    blind = finding(replace(NEW_PROMPTS, decode_rate=None, **{unseen: None}), "cache_pressure")  # type: ignore[arg-type]
    assert blind.against == ()
    assert blind.unseen == ()


def test_it_is_the_reason_where_more_is_computed_again_than_is_new() -> None:
    said = best(replace(NEW_PROMPTS, recomputed_flow=9000.0))
    assert (said.cause, said.detail) == ("cache_pressure", "preemption thrash")
    assert finding(replace(NEW_PROMPTS, recomputed_flow=9000.0), "prefill_interference").score < 0.3


def test_it_may_be_the_reason_where_nobody_knows_what_is_computed_again() -> None:
    said = best(replace(NEW_PROMPTS, recomputed_flow=None))
    assert (said.cause, said.detail) == ("cache_pressure", "preemption thrash")


LARGE = replace(
    AFTER_THRASH,
    running=gauge(12.0, first=27.0, last=5.0, before=26.0),
    waiting=gauge(22.0, first=7.0, last=30.0, before=0.0),
    kv=gauge(0.88, first=0.877, last=0.899, before=0.21),
    preemptions=0.0,
    recomputed_flow=0.0,
    step_rate=140.0,
    step_before=170.0,
)


def test_requests_too_large_for_what_is_left_are_kept_out_by_memory() -> None:
    said = best(LARGE)
    assert (said.cause, said.detail) == ("cache_pressure", "KV full for requests so large")
    assert said.facts[-1].says == "a running request holds 18% of the KV cache, and 10% was free"
    assert finding(LARGE, "admission_stall").score < said.score


def test_one_running_request_does_not_tell_how_large_the_next_is() -> None:
    alone = replace(LARGE, running=gauge(4.0, first=7.0, last=1.0, before=7.0), kv=steady(0.77, 0.3))
    assert finding(alone, "cache_pressure").score == 0.0


def test_preempted_requests_that_are_brought_back_over_the_bus() -> None:
    moved = Traffic("device.pcie_rx", "to the device over PCIe", 7.1e9, 1.2e7)
    swapped = replace(LARGE, kv=steady(0.18, 0.29), preemptions=4.0, recomputed_flow=None, moved=moved)
    assert (best(swapped).cause, best(swapped).detail) == ("cache_pressure", "swapping")
    assert finding(replace(swapped, preemptions=0.4), "cache_pressure").score == 0.0


def test_a_device_that_rests_beside_running_requests_does_not_rest_for_want_of_memory() -> None:
    held = ThreadView("engine", "MainThread", True, {"sample": 0.5, "launch": 0.5}, 0.04, 0.9, 0.87, 0.0)
    resting = replace(
        NEW_PROMPTS,
        kind="utilisation",
        busy=0.15,
        threads=(held,),
        throttled_share=0.77,
        cores=Cores(quota=1.0, allowed=4.0, used=1.0),
        prompt_flow=300.0,
        prompt_rate=300.0,
    )
    said = best(resting)
    assert (said.cause, said.detail) == ("host_starvation", "cgroup throttling")
    assert (
        "idled although requests ran, while the critical thread did host work"
        in finding(resting, "cache_pressure").against[0]
    )


DEFERRED = replace(
    AFTER_THRASH,
    kind="utilisation",
    busy=0.1,
    running=gauge(0.4, first=2.0, last=0.0, before=6.2),
    waiting=gauge(9.0, first=4.0, last=11.0, before=0.9),
    deferred=gauge(7.5, first=3.0, last=9.0, before=0.0),
    limit=9.0,
    kv=gauge(0.01, first=0.04, last=0.0, before=0.1),
    preemptions=0.0,
    recomputed_flow=0.0,
    decode_rate=10.0,
    prompt_flow=20.0,
    threads=(ThreadView("engine", "MainThread", True, {"poll": 0.9, "device_sync": 0.1}, 0.3, 1.0, 0.0, 0.0),),
)


def test_deferred_requests_that_came_to_fill_the_limit_hold_the_others_up() -> None:
    said = best(DEFERRED)
    assert (said.cause, said.detail) == ("admission_stall", "deferred requests hold the cap")
    assert "wait behind it" in finding(DEFERRED, "external_wait").against[0]


def test_where_only_deferred_ones_wait_something_outside_is_waited_for() -> None:
    alone = replace(DEFERRED, waiting=DEFERRED.deferred, running=steady(0.0, 6.2))
    assert (best(alone).cause, best(alone).detail) == ("external_wait", "deferred requests")


UNKNOWN_CODE = replace(
    AFTER_THRASH,
    kind="utilisation",
    busy=0.04,
    running=steady(8.0, 18.0),
    waiting=steady(0.0, 4.0),
    kv=steady(0.24, 0.3),
    preemptions=0.0,
    recomputed_flow=0.0,
    compilers=3.0,
    compilers_before=0.0,
    decode_rate=11.0,
    prompt_flow=0.0,
    step_rate=1.5,
    threads=(ThreadView("engine", "MainThread", True, {"other": 1.0}, 0.99, 0.99, 0.0, 0.0, 0.0, "fused (gather.py)"),),
)


def test_a_compiler_beside_code_that_no_rule_knows_may_be_what_that_code_waits_for() -> None:
    said = best(UNKNOWN_CODE)
    assert said.cause == "compiling"
    assert "whether the code that no rule knows is what called the compiler" in said.unseen


def test_code_that_no_rule_knows_is_the_hosts_own_where_no_compiler_ran() -> None:
    assert best(replace(UNKNOWN_CODE, compilers=0.0)).cause == "host_starvation"


def test_what_is_computed_again_is_preempted_requests_times_what_a_running_one_holds() -> None:
    stream = Stream(30)
    stream.metrics(
        server(
            sched__running=stairs((0, 10)),
            kv__used=stairs((0, 0.5)),
            kv__capacity=stairs((0, 20_000)),
            sched__preemptions=total((0, 0), (12, 4), (14, 0)),
        )
    )
    timeline, _ = analyse(stream.lines())
    [source] = [name for name in timeline.sources if timeline.ids("kv.used", name)]
    kv, running = steady(0.5, 0.5), steady(10.0, 10.0)

    def flow(start: float, end: float, kv: Gauge | None = kv) -> float | None:
        return recomputed_flow(timeline, (source,), start, end, kv, running, Reference(timeline, ()))

    # Eight requests of 1000 tokens in two seconds.
    assert flow(12.0, 14.0) == pytest.approx(4000.0, rel=0.15)
    assert flow(18.0, 20.0) == 0.0
    assert flow(12.0, 14.0, None) is None
