"""What a whole valley shows and its slices cannot, and what is no valley because less was asked for."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .case_streams import level, rate
from .valley_server import server
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, total, valleys_of


def said(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


def test_a_batch_that_drains_at_full_speed_is_no_prefill_though_the_next_ones_prompts_end_it() -> None:
    sizes = ((0.0, 8.0), (12.0, 5.0), (13.0, 3.0), (14.0, 1.0), (15.0, 8.0))
    stream = Stream(22).device(stairs((0, 1.0), (12, 0.45), (13, 0.3), (14, 0.1), (15, 1.0)))
    curves = server(
        sched__running=stairs(*sizes),
        sched__waiting=stairs((0, 10)),
        tokens__decode=total(*((t, 100 * size) for t, size in sizes)),
        tokens__prompt=total((0, 0), (15.2, 60_000), (15.4, 0)),
    )
    verdict = said(stream.metrics(curves).stacks(API, "api", lambda t: "idle"))
    assert (verdict.cause, verdict.detail) == ("admission_stall", "batch boundary (static membership)")
    (because,) = (item.because for item in verdict.excluded if item.cause == "prefill_interference")
    assert "each running request went on" in because


def test_a_wedge_inside_a_longer_valley_is_a_part_of_it() -> None:
    stopped = {name: rate(each, 0, (12, 24)) for name, each in (("tokens__decode", 800), ("step__count", 100))}
    stream = Stream(32).device(stairs((0, 1.0), (20, 0.0), (24, 1.0)), power=stairs((0, 300), (12, 66), (24, 300)))
    stream.metrics(server(**stopped)).stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "gc" if 20 <= t < 24 else "device_sync")
    stream.states(ENGINE, "engine", stairs((0, 0.5), (20, 1.0), (24, 0.5)))
    verdict = said(stream, "progress")
    assert [(part.cause, round(part.start_s)) for part in verdict.segments[:2]] == [
        ("stalled_busy", 12),
        ("host_starvation", 20),
    ]
    assert verdict.cause == "stalled_busy"


def test_a_wedge_is_one_though_prompts_came_at_their_usual_rate_meanwhile() -> None:
    # They pile up, and are booked when it ends: over the whole valley each step held far more of them.
    span = (12.0, 19.0)
    stream = Stream(32).device(stairs((0, 1.0)), power=stairs((0, 300)))
    stopped = {name: rate(each, 0, span) for name, each in (("tokens__decode", 120), ("step__count", 30))}
    prompts = total((0, 750), (12, 0), (19, 3500), (21, 750))
    slow = total((0, 120), (12, 0), (19, 30), (21, 120))
    stream.metrics(server(**{**stopped, "tokens__prompt": prompts, "tokens__decode": slow}))
    stream.stacks(ENGINE, "engine", lambda t: "device_sync")
    verdict = said(stream, "progress")
    assert verdict.cause == "stalled_busy"
    assert verdict.segments[-1].cause == "prefill_interference"


def test_prompts_in_steps_that_are_as_fast_as_those_without_are_no_part_of_a_valley() -> None:
    # Somebody else takes most of the device; prompts come at random, and no step is slower for them.
    stream = Stream(32).device(
        stairs((0, 1.0)),
        power=stairs((0, 250), (12, 300), (22, 250)),
        more={"device.foreign_processes": stairs((0, 0), (12, 1), (22, 0))},
    )
    prompts = total((0, 230), (12, 0), (14, 900), (15, 0), (17, 900), (18, 0), (20, 230))
    curves = {"tokens__decode": rate(300, 110, (12, 22)), "step__count": rate(30, 11, (12, 22))}
    stream.metrics(server(tokens__prompt=prompts, **curves)).stacks(ENGINE, "engine", lambda t: "device_sync")
    verdict = said(stream, "progress")
    assert verdict.cause == "device_limit"
    assert {part.cause for part in verdict.segments} == {"device_limit"}


@pytest.mark.parametrize(("seconds", "watts", "cause"), [(1.5, 60, "stalled_busy"), (1.5, 290, "unknown")])
def test_a_short_standstill_is_a_wedge_only_where_power_tells_it_from_a_long_step(
    seconds: float, watts: float, cause: str
) -> None:
    span = (12.0, 12.0 + seconds)
    stopped = {name: rate(each, 0, span) for name, each in (("tokens__decode", 800), ("step__count", 100))}
    power = stairs((0, 300), (12, watts), (span[1], 300))
    stream = Stream(20).device(stairs((0, 1.0)), power=power)
    stream.metrics(server(tokens__prompt=total((0, 0)), **stopped), every=0.25)
    stream.stacks(ENGINE, "engine", lambda t: "device_sync")
    assert said(stream, "progress").cause == cause


@pytest.mark.parametrize(("tokens", "found"), [(285.0, 0), (120.0, 1)])
def test_fewer_requests_each_at_its_usual_speed_are_no_progress_valley(tokens: float, found: int) -> None:
    # A lone request was twice as fast as one of eight: three are not expected to be as fast as it.
    running = stairs((0, 1), (3, 8), (12, 3), (18, 8))
    decode = total((0, 200), (3, 800), (12, tokens), (18, 800))
    stream = Stream(24).device(stairs((0, 1.0)))
    stream.metrics(server(sched__running=running, tokens__decode=decode, tokens__prompt=total((0, 0))))
    assert len(valleys_of(stream)) == found


@pytest.mark.parametrize(("prompts", "excluded"), [(70.0, True), (0.0, False)])
def test_a_prompt_that_moves_however_slowly_is_no_wedge(prompts: float, excluded: bool) -> None:
    stream = Stream(30, engine="llamacpp").device(stairs((0, 1.0)), power=stairs((0, 300)))
    curves: dict[str, Curve] = {
        "sched.running": stairs((0, 3)),
        "slots.prefilling": level(0, 1, (12, 20)),
        "tokens.prompt": rate(0, prompts, (12, 20)),
        "tokens.decode": rate(59.4, 0, (12, 20)),
        "step.count": rate(20, 0, (12, 20)),
    }
    verdict = said(stream.metrics(curves), "progress")
    assert verdict.cause == "prefill_interference"
    assert ("stalled_busy" in {item.cause for item in verdict.excluded}) == excluded


def test_slices_too_short_for_stacks_still_tell_where_one_cause_follows_another() -> None:
    # Nobody asks, and the device reads busy at idle power; then a long prefill. Together they look like neither.
    span = (12.0, 19.0)
    stopped = {name: rate(each, 0, span) for name, each in (("tokens__decode", 800), ("step__count", 100))}
    stream = Stream(30).device(stairs((0, 1.0)), power=stairs((0, 300), (12, 40), (16, 340), (19, 300)))
    prompts = total((0, 100), (12, 0), (16, 100_000), (19, 100))
    stream.metrics(server(tokens__prompt=prompts, **stopped)).stacks(API, "api", lambda t: "idle", error=0.4)
    stream.stacks(ENGINE, "engine", lambda t: "await_requests" if 12 <= t < 16 else "device_sync", error=0.4)
    verdict = said(stream, "progress")
    first, second = verdict.segments[:2]
    assert (first.cause, round(first.start_s)) == ("artefact", 12)
    assert (second.cause, round(second.start_s)) == ("prefill_interference", 16)
    assert verdict.cause == "artefact"
