"""The idle seconds told of single gaps of 20 to 400 ms, at any phase, are true to what whole per cents leave open."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.devices_truth import boxcar
from tests.devices_truth.gaps import BEFORE, Gap, card, partial_windows, shown, told
from tests.devices_truth.replay import Judged, judge, streams

LENGTHS = (0.0203, 0.0511, 0.1007, 0.1537, 0.2009, 0.2531, 0.3017, 0.3991)
"""Seconds: no whole per cents of a window, whose two parts would round to their true sum."""
PHASES = 4
RECURRING = 200
"""Gaps of about 45 % of W that come first: from them the rounding is told."""
KINDS: list[tuple[float, boxcar.Rounding]] = [
    (window, rounding) for window in (0.167, 0.2, 0.5) for rounding in ("nearest", "down")
]


def recurring(window: float) -> list[Gap]:
    """Four and a half windows apart on average, at random phase, their lengths scattered by half a per cent of W."""
    chance, found = random.Random(f"recurring in {window}"), []
    for index in range(RECURRING):
        begin = (15 + 4.5 * index + chance.uniform(0.0, 1.0)) * window
        found.append((begin, begin + chance.gauss(0.45, 0.005) * window))
    return found


def single(window: float) -> list[Gap]:
    """Each length at phases all over the window, and so that a sliver lies in the window before or behind."""
    chance = random.Random(f"single in {window}")
    first = (RECURRING * 4.5 + 30) * window
    phases = [(index + chance.random()) / PHASES for index in range(PHASES)]
    found = []
    for length in LENGTHS:
        slivers = [1 - 0.004, (1.003 - length / window) % 1]
        for phase in (*phases, *slivers):
            index = round((first + BEFORE) / window)
            begin = (index + phase) * window - BEFORE
            found.append((begin, begin + length))
            first = begin + length + max(2.0, 8 * window)
    return found


@cache
def judged(window: float) -> dict[boxcar.Rounding, Judged]:
    gaps = [*recurring(window), *single(window)]
    seconds = gaps[-1][1] + 5.0
    kinds: tuple[boxcar.Rounding, ...] = ("nearest", "down")
    cards = [card(gaps, seconds, window, uuid=f"GPU-{way}", rounding=way) for way in kinds]
    found = streams(seconds, *cards, begin=BEFORE)
    return {way: judge(stream) for way, stream in zip(kinds, found, strict=True)}


@pytest.mark.parametrize(("window", "rounding"), KINDS)
def test_the_rounding_is_told_from_the_recurring_gaps(window: float, rounding: boxcar.Rounding) -> None:
    (way,) = judged(window)[rounding].assessment.rounding
    assert (way.rounding, way.learnt) == (rounding, True)


@pytest.mark.parametrize(("window", "rounding"), KINDS)
def test_idle_seconds_are_true_to_half_a_per_cent_of_each_partial_window(
    window: float, rounding: boxcar.Rounding
) -> None:
    wrong = []
    for gap in single(window):
        found = told(judged(window)[rounding], gap, window)
        bound = partial_windows(gap, window) * 0.005 * window + 0.001
        stated = sum(valley.idle_error_s or 0.0 for valley in found.valleys)
        stated += sum(dip.idle_error_s for dip in found.dips)
        if abs(found.idle_s - (gap[1] - gap[0])) > min(bound, stated) + 1e-6:
            wrong.append((gap, shown(gap, window, rounding), found.kind, found.idle_s, bound, stated))
    assert wrong == []


@pytest.mark.parametrize(("window", "rounding"), KINDS)
def test_the_gap_lies_within_the_bounds_of_the_longest_one(window: float, rounding: boxcar.Rounding) -> None:
    wrong = []
    for gap in single(window):
        bounds = told(judged(window)[rounding], gap, window).longest_gap_s
        length = gap[1] - gap[0]
        if len(bounds) != 1 or not bounds[0][0] - 1e-6 <= length <= bounds[0][1] + 1e-6:
            wrong.append((gap, shown(gap, window, rounding), bounds))
    assert wrong == []


@pytest.mark.parametrize(("window", "rounding"), KINDS)
def test_the_bounds_of_the_longest_gap_say_something(window: float, rounding: boxcar.Rounding) -> None:
    """At most as long as all idle time of its windows may be: each of two partial ones, and a hidden sliver. One that
    is not hidden, but reads no more than a device at rest, may be work within the gap."""
    for gap in single(window):
        resting = sum(0 < reading <= 2 for reading in shown(gap, window, rounding))
        more = (0.03 * resting + 2 * 0.02 * (resting > 0)) * window
        for low, high in told(judged(window)[rounding], gap, window).longest_gap_s:
            assert 0.0 <= low <= high
            assert high <= gap[1] - gap[0] + 0.03 * window + 0.001 + more
