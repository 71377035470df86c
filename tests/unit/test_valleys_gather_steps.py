"""A standstill shorter than three stated periods is known by the readings as they came."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gaptop.recording.lines import Batch, Header, Source, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.gather_steps import progress_between
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import scopes

NAME = "metrics/http://a"


def read(readings: Sequence[tuple[float, float]], refresh: str = "step") -> Timeline:
    """Ten seconds at 50 steps a second, read five times a second though two are stated, and what comes then."""
    timeline = Timeline(lambda frames: "other")
    times = [t / 5 for t in range(51)]
    rows = [*((t, 50.0 * t) for t in times), *readings]
    for line in (
        Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00.000Z", 0),
        Source(0.0, NAME, "engines.vllm", "server", {"url": "http://a"}, ("step.count",), 0.5, refresh=refresh),
        Batch(NAME, [t for t, _ in rows], {"step.count": [value for _, value in rows]}),
        Watermark(NAME, 20.0),
        Tick(20.0),
    ):
        timeline.apply(line)
    return timeline


def told(readings: Sequence[tuple[float, float]], refresh: str = "step") -> float | None:
    """Steps between the readings at the edges of 10 s to 11.4 s."""
    timeline = read(readings, refresh)
    counted = (("tokens.decode", (NAME,)), ("step.count", (NAME,)))
    return progress_between(timeline, counted, 10.0, 11.4, Reference(timeline, ((1.0, 10.0),)))


STOOD = [(10.2, 504.0), (10.4, 504.0), (10.6, 504.0), (10.8, 504.0), (11.0, 504.0), (11.2, 504.0), (11.4, 513.0)]
"""The last step before it and the first one after it fall into the intervals at the edges."""


def test_steps_at_the_edges_are_no_progress_in_between() -> None:
    assert told(STOOD) == 0.0


def test_so_a_valley_of_less_than_three_stated_periods_is_known_to_be_frozen() -> None:
    timeline = read(STOOD)
    (scope,) = scopes(timeline)
    before = Reference(timeline, ((1.0, 10.0),))
    evidence = gather(timeline, scope, Stretch("progress", 10.0, 11.4, (), None), before)
    assert evidence.progress_ratio == pytest.approx(13.0 / 1.4 / 50.0)
    assert evidence.frozen is True


def test_a_step_in_between_is_progress() -> None:
    moved = [(t, value + (1.0 if t >= 10.8 else 0.0)) for t, value in STOOD]
    assert told(moved) == pytest.approx(1.0 / 50.0, rel=0.01)


@pytest.mark.parametrize("refresh", ["40 steps", "2 s"])
def test_a_counter_that_rarely_moves_says_nothing(refresh: str) -> None:
    assert told(STOOD, refresh) is None


def test_too_little_between_the_edges_says_nothing() -> None:
    assert told([(10.7, 504.0), (11.4, 513.0)]) is None
    assert told([(10.6, 504.0), (10.9, 504.0), (11.5, 513.0)]) is None
