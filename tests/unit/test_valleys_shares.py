"""Two causes in the same steps: what each cost of the progress lost, and what prompts at their usual rate explain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.valleys.causes.memory_share import memory_share, share_of_loss
from gaptop.valleys.causes.pace import prompts_explain
from gaptop.valleys.causes.rule import each_says
from gaptop.valleys.evidence import Evidence, ThreadView

from .valley_evidence import best, finding, gauge, steady

FULL = Evidence(
    kind="progress",
    engine="vllm",
    start=20.0,
    end=23.0,
    busy=1.0,
    busy_level=1.0,
    devices=1,
    running=gauge(12.0, first=24.0, last=11.0, before=24.0),
    waiting=gauge(13.0, first=1.0, last=14.0, before=1.0),
    limit=128.0,
    kv=steady(0.97, 0.4),
    preemptions=0.0,
    recomputed_flow=0.0,
    finished=4.0,
    decode_rate=300.0,
    decode_before=720.0,
    prompt_rate=900.0,
    prompt_before=900.0,
    prompt_flow=900.0,
    prompt_late=True,
    prompt_settled=True,
    step_rate=30.0,
    step_before=30.0,
    threads=(ThreadView("engine", "MainThread", True, {"device_sync": 1.0}, 0.05, 0.05, 0.0, 0.0),),
    stacks_seen=True,
    states_seen=True,
)
"""Half as many run as before, the others wait for blocks, and steps are as fast as ever."""

LONG = replace(FULL, running=steady(24.0, 24.0), step_rate=10.0, prompt_rate=6000.0, prompt_flow=6000.0)
"""As many run as before, in steps three times as long that hold twenty times the prompt tokens."""


def test_a_smaller_batch_in_steps_as_fast_as_ever_is_all_the_caches() -> None:
    assert memory_share(FULL) == (1.0, 1.0, False)
    said = best(FULL)
    assert (said.cause, said.detail) == ("cache_pressure", "KV full: running fell as waiting rose")


def test_a_batch_as_large_as_ever_in_long_steps_is_none_of_it() -> None:
    assert memory_share(LONG) == (0.0, 0.0, False)
    assert best(LONG).cause == "prefill_interference"
    [against] = finding(LONG, "cache_pressure").against
    assert against.endswith("slower steps cost more")


@pytest.mark.parametrize(("running", "cause"), [(22.0, "prefill_interference"), (3.0, "cache_pressure")])
def test_where_both_are_in_the_same_steps_what_cost_more_is_the_cause(running: float, cause: str) -> None:
    both = replace(LONG, running=gauge(running, first=24.0, last=running, before=24.0))
    assert best(both).cause == cause
    assert best(both).score > finding(both, "unknown").score


def test_what_is_computed_again_in_long_steps_is_the_caches() -> None:
    thrown = replace(LONG, preemptions=20.0, recomputed_flow=20_000.0)
    assert best(thrown).cause == "cache_pressure"
    assert best(thrown).score < best(FULL).score  # what is computed again is an estimate
    assert any("the full cache cost about" in fact.says for fact in best(thrown).facts)
    assert finding(thrown, "prefill_interference").score < best(thrown).score


def test_prompts_that_are_a_part_of_the_usual_steps_count_for_what_they_take() -> None:
    # Usual: 200 tokens in 86 ms, now 475 in 117 ms: 63 ms are decoding, so that the longer steps cost more.
    usual = replace(
        FULL,
        running=gauge(20.7, first=30.0, last=20.0, before=30.0),
        decode_rate=168.0,
        decode_before=324.0,
        prompt_rate=4070.0,
        prompt_flow=4070.0,
        prompt_before=2350.0,
        step_rate=8.57,
        step_before=11.66,
    )
    share = memory_share(usual)
    assert share is not None
    assert (round(share.least, 2), round(share.most, 2)) == (0.38, 0.55)
    assert best(usual).cause == "prefill_interference"


def test_steps_that_are_little_longer_leave_a_batch_that_is_half_as_large_to_the_cache() -> None:
    # Two operating points that lie so close together say next to nothing of what decoding takes.
    close = replace(
        FULL, running=steady(16.0, 32.0), waiting=steady(16.0, 0.0), step_rate=30.0 / 1.15, prompt_before=2000.0,
        prompt_flow=2100.0, prompt_rate=2100.0, decode_rate=435.0, decode_before=1000.0,
    )  # fmt: skip
    share = memory_share(close)
    assert share is not None
    assert share.least < 0.5 < share.middle
    assert best(close).cause == "cache_pressure"
    assert best(close).facts[-1].says == "the full cache cost about 33% to 83% of the progress lost, by a smaller batch"


@pytest.mark.parametrize("change", [{"kv": steady(0.7, 0.4)}, {"kv": None}, {"waiting": steady(0.0, 0.0)}])
def test_where_nobody_waits_for_a_full_cache_it_has_no_share(change: dict[str, object]) -> None:
    assert memory_share(replace(FULL, **change)) is None  # type: ignore[arg-type]


def test_steps_that_few_prompts_do_not_explain_take_nothing_from_it() -> None:
    few = replace(LONG, running=gauge(20.0, first=24.0, last=19.0, before=24.0), prompt_flow=500.0, prompt_rate=500.0)
    assert memory_share(few) is None
    assert best(few).cause == "cache_pressure"
    assert finding(few, "cache_pressure").against == ()


@pytest.mark.parametrize(
    "unseen",
    [
        {"recomputed_flow": None, "preemptions": 3.0},
        {"recomputed_flow": None, "preemptions": None},
        {"prompt_flow": None},
        {"prompt_before": None},
    ],
)
def test_what_was_not_seen_is_no_zero(unseen: dict[str, float | None]) -> None:
    assert share_of_loss(replace(FULL, **unseen)) is None  # type: ignore[arg-type]
    assert prompts_explain(replace(SLOWER, **unseen)) is None  # type: ignore[arg-type]


def test_without_a_counter_of_steps_the_requests_tokens_tell_their_pace() -> None:
    fast, slow = (share_of_loss(replace(FULL, step_rate=None, decode_rate=rate)) for rate in (360.0, 36.0))
    assert fast == (1.0, 1.0, False)
    assert slow is not None
    assert (round(slow.least, 2), round(slow.most, 2)) == (0.15, 0.23)


numbers = st.just(0.0) | st.floats(1e-3, 1e6)


@given(numbers, numbers, numbers, numbers, numbers, numbers, numbers, numbers)
def test_a_share_is_one_and_grows_with_what_is_computed_again(
    running: float, before: float, step: float, usual: float, flow: float, prompts: float, again: float, more: float
) -> None:
    base = replace(
        FULL,
        running=steady(running, before),
        step_rate=step,
        step_before=usual,
        prompt_flow=flow,
        prompt_before=prompts,
        recomputed_flow=again,
    )
    share, grown = share_of_loss(base), share_of_loss(replace(base, recomputed_flow=again + more, prompt_before=0.0))
    assert share is None or 0.0 <= share.least <= share.most <= 1.0
    less = share_of_loss(replace(base, prompt_before=0.0))
    assert less is None or grown is None or grown.middle >= less.middle - 1e-9


SLOWER = replace(
    FULL,
    running=steady(12.0, 10.0),
    waiting=steady(0.0, 0.0),
    kv=steady(0.3, 0.3),
    energy_ratio=1.1,
    power_ratio=1.1,
    foreign=1.0,
    foreign_before=0.0,
    decode_rate=110.0,
    decode_before=330.0,
    prompt_flow=800.0,
    prompt_rate=800.0,
    prompt_before=750.0,
    step_rate=9.0,
    step_before=33.0,
)
"""Prompts come at their usual rate to a device that somebody else came to: fewer steps, each with more of them."""


def test_prompts_at_their_usual_rate_do_not_explain_slower_steps() -> None:
    assert prompts_explain(SLOWER) is False
    said = best(SLOWER)
    assert (said.cause, said.detail) == ("device_limit", "co-tenant")
    assert finding(replace(SLOWER, foreign=0.0), "prefill_interference").score < 0.5


def test_a_little_more_explains_much_where_prompts_take_most_of_the_time() -> None:
    near = replace(SLOWER, foreign=0.0, step_rate=11.0, prompt_flow=1100.0)
    assert prompts_explain(near)  # where prompts usually take 2/3 / (1100/750 - 1/3) of the time, i.e. 59 %
    assert prompts_explain(replace(near, prompt_flow=900.0)) is False


def test_an_engine_that_never_preempts_needs_no_counter_for_it() -> None:
    blind = replace(SLOWER, preemptions=None, recomputed_flow=None)
    assert prompts_explain(blind) is None
    assert prompts_explain(replace(blind, engine="llamacpp")) is False


def test_fewer_of_them_than_are_usually_decoded_take_little() -> None:
    grown = replace(SLOWER, foreign=0.0, prompt_before=50.0, prompt_flow=320.0)
    assert prompts_explain(grown) is False
    assert prompts_explain(replace(grown, prompt_flow=340.0))


def test_more_of_them_than_usual_may() -> None:
    more = replace(SLOWER, prompt_flow=1400.0, prompt_rate=1400.0)
    assert prompts_explain(more)
    assert best(more).cause == "prefill_interference"


@pytest.mark.parametrize(
    ("each", "says"),
    [(0.83, "83% of its usual speed"), (1.1, "110% of its usual speed"), (5.28, "its usual speed or more")],
)
def test_what_the_edges_make_of_a_speed_is_no_number(each: float, says: str) -> None:
    assert each_says(each) == says
