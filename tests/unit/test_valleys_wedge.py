"""A long prefill and a wedge look alike until the prompt is booked: both keep the device busy and decode flat."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Tick
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Valley, Verdict

from .valley_server import server
from .valley_streams import ENGINE, Curve, Stream, classify, only, stairs, total, valleys_of

FULL = stairs((0, 300))


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="progress").verdict


def prefill(seconds: float, decode: float, power: Curve | None, *, offset: float = 0.1) -> Stream:
    """A prompt of 65 535 tokens that keeps the device busy and the decoders waiting, booked when it is done."""
    back = 12 + seconds
    stream = Stream(back + 8).device(stairs((0, 1.0)), power=power)
    curves = server(
        tokens__decode=total((0, 800), (12, decode), (back, 800)),
        tokens__prompt=lambda t: 100 * min(t, 12) + (65535 + 100 * (t - back) if t >= back else 0),
        step__count=total((0, 100), (12, decode / 8), (back, 100)),
        sched__running=stairs((0, 8), (12, 9)),
    )
    return stream.metrics(curves, offset=offset).stacks(ENGINE, "engine", lambda t: "device_sync")


def wedge(seconds: float, power: Curve | None, *, offset: float = 0.1, **changes: Curve) -> Stream:
    back = 12 + seconds
    stopped = {
        "tokens__decode": total((0, 800), (12, 0), (back, 800)),
        "tokens__prompt": total((0, 100), (12, 0), (back, 100)),
        "step__count": total((0, 100), (12, 0), (back, 100)),
    }
    stream = Stream(back + 8).device(stairs((0, 1.0)), power=power)
    stream.metrics(server(**{**stopped, **changes}), offset=offset)
    return stream.stacks(ENGINE, "engine", lambda t: "device_sync")


@pytest.mark.parametrize("power", [FULL, None])
@pytest.mark.parametrize(("seconds", "decode"), [(4.0, 0.0), (16.5, 0.0), (16.5, 12.0), (16.5, 19.4), (30.0, 0.0)])
def test_a_long_prefill_is_no_wedge_however_flat_decode_is(seconds: float, decode: float, power: Curve | None) -> None:
    valley = only(valleys_of(prefill(seconds, decode, power)))
    assert valley.verdict.cause == "prefill_interference"
    assert {part.cause for part in valley.verdict.segments} == {"prefill_interference"}
    assert "restart" not in valley.verdict.advice


@pytest.mark.parametrize("offset", [0.05, 0.1, 0.2, 0.3, 0.45])
@pytest.mark.parametrize("seconds", [3.0, 5.0])
def test_a_wedge_is_found_at_every_phase_of_the_scrapes(seconds: float, offset: float) -> None:
    power = stairs((0, 300), (12, 80), (12 + seconds, 300))
    assert verdict(wedge(seconds, power, offset=offset)).cause == "stalled_busy"


def test_a_wedge_at_full_power_is_named_once_no_prompt_was_booked_at_its_end() -> None:
    said = verdict(wedge(10.0, FULL))
    assert (said.cause, said.confidence) == ("stalled_busy", "medium")


def judged_while_open(stream: Stream, until: float) -> Valley:
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in stream.lines():
        if isinstance(line, Tick) and line.t > until:
            break
        timeline.apply(line)
        analyst.apply(line)
    return only(analyst.assessment.valleys, end_s=None)


@pytest.mark.parametrize("power", [FULL, None])
def test_a_busy_standstill_that_goes_on_may_be_a_prefill_and_is_told_as_a_guess(power: Curve | None) -> None:
    for stream in (prefill(16.5, 0.0, power), wedge(16.5, power)):
        valley = judged_while_open(stream, 22.0)
        said = valley.verdict
        assert said.confidence == "low"
        assert said.runner_up is not None
        assert {said.cause, said.runner_up[0]} == {"stalled_busy", "prefill_interference"}
        assert any("booked only when it ends" in text for text in said.unseen)
        assert "restart" not in said.advice
        assert not valley.final


def test_a_cold_standstill_is_a_wedge_already_while_it_goes_on() -> None:
    said = judged_while_open(wedge(16.5, stairs((0, 300), (12, 80))), 22.0).verdict
    assert (said.cause, said.confidence) == ("stalled_busy", "high")


def test_a_stream_that_ends_in_a_standstill_has_not_proved_a_wedge() -> None:
    stream = Stream(30).device(stairs((0, 1.0)), power=FULL)
    stream.metrics(server(tokens__decode=total((0, 800), (12, 0)), step__count=total((0, 100), (12, 0))))
    assert verdict(stream).confidence == "low"


def test_an_engine_that_tells_its_prefills_needs_no_booking() -> None:
    stream = Stream(30, engine="llamacpp").device(stairs((0, 1.0)), power=FULL)
    curves = server(tokens__decode=total((0, 800), (12, 0)), step__count=total((0, 100), (12, 0)))
    stream.metrics(curves | {"slots.prefilling": stairs((0, 0))})
    assert (verdict(stream).cause, verdict(stream).confidence) == ("stalled_busy", "medium")
