"""A slow answer says less surely when its values were taken: it opens no valley alone, and widens its edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.valleys.progress import Interval, Stall, StallDetector

from .valley_streams import Stream, analyse, total


def fed(*items: Interval) -> tuple[list[Stall], StallDetector]:
    detector = StallDetector(silences=False)
    ended = [detector.feed(item) for item in items]
    return [item for item in ended if item is not None], detector


def usual(count: int, start: float = 0.0) -> list[Interval]:
    return [Interval(start + 0.5 * i, start + 0.5 * i + 0.5, 800.0, 8.0, 40.0) for i in range(count)]


def test_one_that_may_have_been_read_earlier_opens_no_valley() -> None:
    flat = Interval(10.0, 10.5, 0.0, 8.0, 0.0)
    (stall,), _ = fed(*usual(20), flat, *usual(4, 10.5))
    assert (stall.start, stall.end) == (10.0, 10.5)
    found, detector = fed(*usual(20), replace(flat, end_doubt=0.24), *usual(4, 10.5))
    assert (found, detector.open) == ([], None)


def test_one_that_was_surely_long_enough_does() -> None:
    flat = Interval(10.0, 11.0, 0.0, 8.0, 0.0, end_doubt=0.4)
    (stall,), _ = fed(*usual(20), flat, *usual(4, 11.0))
    assert (stall.start, stall.end) == (10.0, 11.0)


def test_a_rate_is_low_only_where_it_is_over_the_shortest_time() -> None:
    low = [Interval(10.0 + i, 11.0 + i, 360.0, 8.0, 18.0) for i in range(2)]
    (stall,), _ = fed(*usual(20), *low, *usual(4, 12.0))
    assert stall.start == 10.0
    found, detector = fed(*usual(20), *(replace(item, end_doubt=0.3) for item in low), *usual(4, 12.0))
    assert (found, detector.open) == ([], None)


def test_a_slow_answer_inside_a_valley_does_not_end_it() -> None:
    flat = [Interval(10.0 + 0.5 * i, 10.5 + 0.5 * i, 200.0 * (i > 2), 8.0, 0.0) for i in range(6)]
    slow = replace(flat[4], end_doubt=0.4)
    (stall,), _ = fed(*usual(20), *flat[:4], slow, flat[5], *usual(4, 13.0))
    assert (stall.start, stall.end) == (10.0, 13.0)


def test_the_edges_are_as_unsure_as_their_readings() -> None:
    flat = Interval(10.0, 12.0, 0.0, 8.0, 0.0)
    (sure,), _ = fed(*usual(20), flat, *usual(4, 12.0))
    assert (sure.start_error, sure.end_error) == (2.0, 0.5)
    back = replace(usual(1, 12.0)[0], start_doubt=0.3)
    (stall,), _ = fed(*usual(20), replace(flat, start_doubt=0.2, end_doubt=0.3), back, *usual(4, 12.5))
    assert stall.start_error == pytest.approx(2.2)
    assert stall.end_error == pytest.approx(0.8)


@pytest.mark.parametrize(("took", "valleys"), [(0.002, 1), (0.47, 0)])
def test_it_is_told_by_the_answers_own_time(took: float, valleys: int) -> None:
    """Tokens stand still between two readings half a second apart, of which the later one took ``took``."""
    tokens = total((0.0, 800.0), (10.0, 0.0), (10.5, 800.0))
    stream = Stream(20.0).metrics(
        {
            "tokens.decode": tokens,
            "step.count": lambda t: (tokens(t) or 0.0) / 8,
            "sched.running": lambda t: 8.0,
            "sched.waiting": lambda t: 0.0,
            "latency.scrape": lambda t: took if abs(t - 10.5) < 0.01 else 0.002,
        },
        offset=0.0,
    )
    _, assessment = analyse(stream.lines())
    assert len([item for item in assessment.valleys if item.kind == "progress"]) == valleys
