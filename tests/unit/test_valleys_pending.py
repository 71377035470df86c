"""What is said of a valley before everything has told of its time: a cause that fits, or that it is too early."""

from __future__ import annotations

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Valley

from .valley_streams import ENGINE, METRICS, Stream, classify, stairs, total

GAP = (10.0, 11.0)


def told(stream: Stream) -> list[tuple[float, Valley]]:
    """What was said of the utilisation valley at each look, the last one before the stream ended included."""
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    found = []
    for line in stream.lines():
        timeline.apply(line)
        said = analyst.apply(line)
        if said is not None:
            found += [(said.now, item) for item in said.valleys if item.kind == "utilisation"]
    return found


def starved(window: float, *, seconds: float = 30.0) -> Stream:
    """The device waits for the engine's sampling, which only stacks tell; those come once in a window."""
    stream = Stream(seconds).device(stairs((0, 1.0), (GAP[0], 0.0), (GAP[1], 1.0)))
    rate = total((0, 800), (GAP[0], 0), (GAP[1], 800))
    steps = total((0, 50), (GAP[0], 0), (GAP[1], 50))
    curves = {"sched.running": stairs((0, 8)), "sched.waiting": stairs((0, 0)), "tokens.decode": rate}
    stream.metrics({**curves, "step.count": steps, "kv.used": stairs((0, 0.4)), "tokens.prompt": total((0, 0))})
    return stream.stacks(ENGINE, "engine", lambda t: "sample" if GAP[0] <= t < GAP[1] else "launch", window=window)


def test_while_stacks_are_to_come_nothing_fits_only_yet() -> None:
    first = next(valley for now, valley in told(starved(8.0)) if valley.end_s is not None)
    assert (first.verdict.cause, first.verdict.detail, first.final) == ("unknown", "pending", False)
    assert first.verdict.doubt.startswith("too early to say: ")
    assert "stacks" in first.verdict.doubt
    assert first.verdict.advice == "Nothing yet: the verdict follows when they come."


def test_the_sentence_says_that_it_is_too_early() -> None:
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    said = []
    for line in starved(8.0).lines():
        timeline.apply(line)
        analyst.apply(line)
        said.append(analyst.assessment.sentence)
    early = [text for text in said if "too early" in text]
    assert early[0].startswith("no cause proved for the ")
    assert early[-1].endswith("too early to say: stacks of that time still to come")


def test_the_cause_is_told_when_they_have_come_and_stays() -> None:
    said = [(now, valley) for now, valley in told(starved(8.0)) if valley.end_s is not None]
    early = [now for now, valley in said if valley.verdict.detail == "pending"]
    assert max(early) == pytest.approx(16.0, abs=1.25)
    assert {valley.verdict.cause for now, valley in said if now > max(early)} == {"host_starvation"}


def test_what_comes_first_is_told_before_what_comes_last() -> None:
    # Stacks are there a second after the valley; what tells once in five seconds holds up the final word alone.
    stream = starved(4.0).host({"host.busy": stairs((0, 0.2))}, source="host", every=5.0)
    said = [(now, valley) for now, valley in told(stream) if valley.end_s is not None]
    named = [now for now, valley in said if valley.verdict.cause == "host_starvation"]
    assert min(named) < GAP[1] + 3.5
    assert not next(valley for now, valley in said if now == min(named)).final


def test_when_all_have_told_and_nothing_fits_that_is_said() -> None:
    stream = Stream(40.0).device(stairs((0, 1.0), (GAP[0], 0.0), (GAP[0] + 0.6, 1.0)))
    stream.metrics({"sched.running": stairs((0, 8)), "sched.waiting": stairs((0, 0)), "tokens.decode": total((0, 800))})
    last = told(stream)[-1][1]
    assert last.final
    assert (last.verdict.cause, last.verdict.detail) == ("unknown", "nothing fits")


def test_a_long_valley_that_is_known_by_more_than_half_is_not_too_early_to_judge() -> None:
    stream = Stream(30.0).device(stairs((0, 1.0), (10.0, 0.0)))
    stream.metrics({"sched.running": stairs((0, 8)), "sched.waiting": stairs((0, 0))}, every=2.0)
    said = told(stream)
    assert {valley.verdict.cause for _, valley in said} == {"unknown"}
    assert [valley.verdict.detail for _, valley in (said[0], said[-1])] == ["pending", "nothing fits"]
    assert said[-1][1].end_s is None


def test_a_late_endpoint_is_named() -> None:
    stream = Stream(16.0).device(stairs((0, 1.0), (GAP[0], 0.0), (GAP[1], 1.0)))
    curves = {"sched.running": stairs((0, 8)), "sched.waiting": stairs((0, 0)), "tokens.decode": total((0, 800))}
    stream.metrics(curves, outages=[(9.9, 17.0)], source=METRICS)
    valley = next(valley for now, valley in told(stream) if valley.end_s is not None)
    assert valley.verdict.doubt == "too early to say: metrics of that time still to come"
