"""Of gaps of 300 ms at random phase, one every 2 s for five minutes: how many are found, and nothing else."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.devices_truth.gaps import BEFORE, Gap, Told, card, one_each, seen_by_pollers, told
from tests.devices_truth.replay import Judged, judge, streams

SECONDS = 300.0
LENGTH = 0.3
HOW = {"each 250 ms": 0.0, "20 ms jitter": 0.02, "about once a second": 1.5}
"""How the ring is drained: seconds by which a drain may come late (1.5: one second apart on average, 1.75 at most)."""
ALL = [(0.167, "20 ms jitter"), (0.2, "each 250 ms"), (0.2, "about once a second")]
"""What is analysed; the windows themselves are the same in all combinations (test_truth_windows.py)."""


def gaps_of(window: float) -> list[Gap]:
    return one_each(2.0, LENGTH, 4.0, SECONDS - 4.0, random.Random(f"300 ms in {window}"))


@cache
def judged(window: float, drained: str) -> Judged:
    one = card(gaps_of(window), SECONDS, window)
    (found,) = streams(SECONDS, one, begin=BEFORE, jitter=HOW[drained], seed=11)
    return judge(found)


def all_told(window: float, drained: str) -> list[Told]:
    return [told(judged(window, drained), gap, window) for gap in gaps_of(window)]


@pytest.mark.parametrize(("window", "drained"), ALL)
def test_300_ms_gaps_are_valleys_at_windows_of_167_and_200_ms(window: float, drained: str) -> None:
    found = all_told(window, drained)
    assert len(found) == 146
    assert sum(len(one.valleys) == 1 for one in found) >= 0.99 * len(found)
    assert len({valley.id for one in found for valley in one.valleys}) >= 0.99 * len(found)


def test_300_ms_gaps_in_a_window_of_500_ms_are_valleys_or_dips() -> None:
    """A window of 500 ms never reads under 40 %; split over two, 70 %. So some are valleys, and the others dips.

    Those with another one in the window next to theirs are dips too, of several gaps or one: none is told of its own.
    """
    found = all_told(0.5, "each 250 ms")
    assert sum(one.kind != "nothing" for one in found) >= 0.99 * len(found)
    assert any(round((dip.end_s - dip.start_s) / 0.5) > 2 for one in found for dip in one.dips)
    idle = sum(one.idle_s for one in judged(0.5, "each 250 ms").assessment.dips)
    idle += sum(one.idle_s or 0.0 for one in judged(0.5, "each 250 ms").assessment.valleys)
    assert idle == pytest.approx(LENGTH * len(found), rel=0.02)
    assert 0.3 < sum(one.kind == "valley" for one in found) / len(found) < 0.9


@pytest.mark.parametrize(("window", "drained"), [*ALL, (0.5, "each 250 ms")])
def test_nothing_is_told_where_no_gap_was(window: float, drained: str) -> None:
    assessment = judged(window, drained).assessment
    gaps = gaps_of(window)
    spans = [(one.start_s, one.end_s or SECONDS) for one in assessment.valleys]
    spans += [(one.start_s, one.end_s) for one in assessment.dips]
    for first, last in spans:
        assert any(first < end + window and last > start - window for start, end in gaps), (first, last)
    assert len(assessment.valleys) + len(assessment.dips) <= len(gaps)


@pytest.mark.parametrize("window", [0.167, 0.2])
def test_a_poller_at_1_hz_sees_about_half_of_them(window: float) -> None:
    assert 0.4 < seen_by_pollers(gaps_of(window), window, random.Random(5)) < 0.6
