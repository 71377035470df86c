"""What limits a device, and what only looks so: caps that were always there, clocks that explain little, guests that
only hold memory."""

from __future__ import annotations

from typing import Any

import pytest

from gaptop.valleys.causes.device_limit import device_limit
from gaptop.valleys.causes.rule import LIKELY, POSSIBLE, SECONDED, STRONG, WEAK
from gaptop.valleys.causes.unknown import FLOOR
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
from gaptop.valleys.model import Verdict

from .valley_server import BACK, END, LOW, server
from .valley_streams import Curve, Stream, only, stairs, total, valleys_of

RUNNING = Gauge(8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
NONE = Gauge(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def slowed(progress: float, **more: Any) -> Evidence:
    """A busy device whose server makes a share of its usual tokens."""
    seen = {"running": RUNNING, "waiting": NONE, "decode_rate": 800 * progress, "decode_before": 800.0}
    return Evidence("progress", "vllm", 10.0, 13.0, **{"busy": 1.0, "busy_level": 1.0, **seen, **more})


def limited(progress: float, clock: float | None, **more: Any) -> Evidence:
    new = {"limit_share": 0.95, "limit_share_before": 0.0, "limit_reason": "sw_power_cap"}
    return slowed(progress, clock_ratio=clock, **{**new, **more})


def guest(**more: Any) -> Evidence:
    """A process that is new on the device, while half of the tokens come."""
    return slowed(0.4, **{"foreign": 1.0, "foreign_before": 0.0, **more})


def engine(activity: str) -> tuple[ThreadView, ...]:
    return (ThreadView("engine", "engine", True, activities={activity: 0.9, "schedule": 0.1}),)


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="progress").verdict


# Clocks.


@pytest.mark.parametrize(
    ("clock", "progress", "score"),
    [(0.3, 0.25, STRONG), (0.6, 0.5, STRONG), (0.8, 0.5, POSSIBLE), (0.9, 0.3, WEAK), (0.7, 0.0, WEAK)],
)
def test_a_limit_is_as_sure_as_its_clock_explains_the_slowdown(clock: float, progress: float, score: float) -> None:
    found = device_limit(limited(progress, clock))
    assert (found.score, found.detail) == (score, "sw power cap")
    assert bool(found.against) == (score < STRONG)


def test_decoding_that_loses_less_than_its_clock_is_held_back_by_it_all_the_same() -> None:
    # Decode is bound by memory: at 40 % of the clock 70 % of the tokens came.
    assert device_limit(limited(0.7, 0.4)).score == STRONG


def test_a_limit_without_a_clock_is_not_sure() -> None:
    found = device_limit(limited(0.3, None))
    assert found.score == LIKELY
    assert any("clock" in text for text in found.unseen)


def test_a_limit_of_which_nobody_knows_since_when_it_holds_is_a_guess() -> None:
    found = device_limit(limited(0.3, None, limit_share_before=None))
    assert found.score == POSSIBLE
    assert any("all along" in text for text in found.unseen)


def test_a_cap_that_was_there_while_all_went_well_is_no_cause() -> None:
    found = device_limit(limited(0.3, 1.0, limit_share_before=0.9))
    assert (found.score, found.against) == (0.0, ("limit reasons no stronger than before",))


def test_a_limit_beside_an_idle_device_holds_nothing_up() -> None:
    found = device_limit(limited(0.3, 0.3, busy=0.1))
    assert found.score < FLOOR
    assert "the device was idle" in found.against[0]


@pytest.mark.parametrize(("clock", "score"), [(0.4, LIKELY), (0.7, POSSIBLE), (0.84, WEAK)])
def test_a_clock_that_fell_without_a_reason_counts_as_far_as_it_explains(clock: float, score: float) -> None:
    found = device_limit(slowed(0.3, clock_ratio=clock, limit_share=0.0, limit_share_before=0.0))
    assert (found.score, found.detail) == (score, "clocks")


def test_a_busy_device_that_draws_as_little_as_it_makes_is_held_back_whatever_its_clock_says() -> None:
    # Case 37: 1890 of 2625 MHz and 16 of 47 W, 70-80 % slower. A spin draws little, too, but makes nothing at all.
    none = {"limit_share": 0.0, "limit_share_before": 0.0, "clock_ratio": 0.72, "power_ratio": 0.34}
    assert device_limit(slowed(0.25, **none)).score == LIKELY
    assert device_limit(slowed(0.0, **none)).score < FLOOR
    assert device_limit(slowed(0.25, **{**none, "power_ratio": 0.9})).score < FLOOR


def test_a_limit_that_slows_no_request_is_no_cause() -> None:
    # A static batch that runs empty: fewer tokens come, each request as fast as ever.
    fewer = Gauge(2.0, 2.0, 2.0, 2.0, 2.0, 8.0)
    found = device_limit(limited(0.24, 0.65, running=fewer))
    assert (found.score, found.against) == (0.0, ("each running request went on at 96% of its usual speed",))


def slow_server(*clocks: Curve, **reasons: Curve) -> Stream:
    stream = Stream(END).metrics(
        server(
            tokens__decode=total((0, 800), (LOW, 260), (BACK, 800)), step__count=total((0, 100), (LOW, 33), (BACK, 100))
        )
    )
    limits = {f"device.limit_seconds{{reason={name}}}": curve for name, curve in reasons.items()}
    for index, clock in enumerate(clocks):
        stream.device(stairs((0, 1.0)), source=f"nvml/GPU-{index}", more={"device.clock_sm": clock, **limits})
    return stream


FELL = stairs((0, 1.9e9), (LOW, 0.5e9), (BACK, 1.9e9))
STEADY = stairs((0, 1.9e9))


def test_a_new_limit_is_seen_beside_one_that_always_holds() -> None:
    always, new = total((0, 1.0)), total((0, 0.0), (LOW, 0.9), (BACK, 0.0))
    said = verdict(slow_server(FELL, sw_power_cap=always, sw_thermal_slowdown=new))
    assert (said.cause, said.detail) == ("device_limit", "sw thermal slowdown")


def test_the_slowest_of_several_ranks_tells_the_clock() -> None:
    # A mean over four ranks would read over 80 %: they all wait for the one at 26 %.
    said = verdict(slow_server(FELL, STEADY, STEADY, STEADY))
    assert (said.cause, said.detail) == ("device_limit", "clocks")
    assert (said.evidence[0].value or 1.0) < 0.35


def test_limit_bits_that_were_always_set_are_nothing_new() -> None:
    always = stairs((0, 4.0))
    stream = slow_server()
    stream.device(stairs((0, 1.0)), more={"device.limit_reasons": always})
    assert verdict(stream).cause != "device_limit"


# Who else is on the device.


def test_a_guest_alone_is_only_possible() -> None:
    found = device_limit(guest())
    assert (found.score, found.detail) == (POSSIBLE, "co-tenant")
    assert "which of the processes on the device worked was not seen" in found.unseen


@pytest.mark.parametrize(
    ("more", "score"),
    [
        ({"power_ratio": 0.95}, LIKELY),
        ({"threads": engine("device_sync")}, LIKELY),
        ({"power_ratio": 0.95, "threads": engine("device_sync")}, SECONDED),
    ],
)
def test_a_guest_that_works_shows_in_power_and_in_the_engines_wait(more: dict[str, Any], score: float) -> None:
    assert device_limit(guest(**more)).score == score


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"busy": 0.2}, "the device was idle"),
        ({"power_ratio": 0.45}, "power 45% of its busy level: no more than"),
        ({"threads": engine("prepare_batch")}, "the engine waited for the device only 0%"),
        ({"decode_rate": 0.0}, "nothing came out at all"),
        ({"clock_ratio": 0.5}, "the device ran at 50% of its clock"),
        ({"prompt_flow": 9000.0, "prompt_before": 100.0}, "own prompts"),
    ],
)
def test_a_guest_that_only_holds_memory_is_never_the_cause(more: dict[str, Any], because: str) -> None:
    findings = device_limit(guest(**more))
    if findings.detail == "co-tenant":
        assert findings.score < FLOOR
        assert because in findings.against[0]
    else:
        assert findings.detail == "clocks"


def test_a_guest_that_was_there_before_is_nothing_new() -> None:
    # Its listing began a little later than the reference time did.
    assert device_limit(guest(foreign_before=0.97, power_ratio=0.95)).score == 0.0


@pytest.mark.parametrize(("flow", "named"), [(100.0, True), (900.0, False)])
def test_slower_steps_hold_more_prompts_each_though_no_more_of_them_come(flow: float, named: bool) -> None:
    steps = {"step_rate": 20.0, "step_before": 100.0, "prompt_flow": flow, "prompt_before": 100.0, "preemptions": 0.0}
    found = device_limit(guest(power_ratio=0.95, threads=engine("device_sync"), **steps))
    assert (found.score >= LIKELY) == named
    assert ("each step held" in "".join(found.against)) != named
