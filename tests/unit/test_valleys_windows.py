"""What windows can tell of gaps whose truth is known: idle seconds, dips, and bounds of the longest gap."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaptop.timeline.types import Steps
from gaptop.valleys.detect import Dip
from gaptop.valleys.model import Assessment, ShallowDip, Valley
from gaptop.valleys.rounding import centred, doubt, most_idle
from gaptop.valleys.windows import longest_gap, measure

from .valley_boxcar import Gaps, idle_within, longest_at_rest, row, slivers, stream, whole, windows
from .valley_streams import analyse

RESOLUTION = 0.001
"""Seconds: what the issue allows besides rounding."""


def assessed(gaps: Gaps, seconds: float, window: float, made: str, stated: str = "") -> Assessment:
    return analyse(stream(gaps, seconds, window, made, stated or made))[1]


# One reading.


@pytest.mark.parametrize("rounding", ["nearest", "down", "percent", ""])
@given(st.floats(0.0, 1.0))
def test_truth_lies_where_a_reading_says_that_it_may(rounding: str, share: float) -> None:
    for made in ("nearest", "down") if rounding == "percent" else (rounding,):
        reading = np.array([whole(share, made)])
        known, middle = doubt(rounding), float(centred(reading, rounding)[0])
        error = known.error if 0.0 < reading[0] < 1.0 else max(known.zero, known.full)
        assert abs(middle - share) <= error + 1e-6
        assert 1.0 - share <= float(most_idle(reading, rounding)[0]) + 1e-6


@pytest.mark.parametrize("rounding", ["nearest", "down", "percent", "", "as a later version says"])
def test_an_idle_and_a_full_window_stay_as_they_are(rounding: str) -> None:
    ends = np.array([0.0, 1.0])
    assert centred(ends, rounding).tolist() == [0.0, 1.0]


# One gap in full load, whatever its phase.


def told(found: Assessment) -> ShallowDip | Valley:
    every: list[ShallowDip | Valley] = [*found.dips, *found.valleys]
    assert len(every) == 1
    return every[0]


@pytest.mark.parametrize("window", [0.167, 0.2, 0.5])
@pytest.mark.parametrize("rounding", ["nearest", "down"])
@settings(max_examples=12, deadline=None)
@given(length=st.integers(20, 400), phase=st.floats(0.0, 1.0))
def test_a_single_gap_has_its_idle_seconds_and_its_length_whatever_its_phase(
    rounding: str, window: float, length: int, phase: float
) -> None:
    begin = round(9.0 / window) * window + phase * window
    gap = (begin, begin + length / 1000)
    steps = windows([gap], window, round(16 / window), "")
    parts = int(((steps.value > 1e-9) & (steps.value < 1 - 1e-9)).sum())
    one = told(assessed([gap], 16.0, window, rounding))
    assert one.idle_s is not None
    assert one.idle_error_s is not None
    assert one.longest_gap_s is not None
    assert abs(one.idle_s - length / 1000) <= parts * 0.005 * window + RESOLUTION
    assert abs(one.idle_s - length / 1000) <= one.idle_error_s + 1e-6
    assert one.idle_error_s <= 2 * 0.01 * window + 1e-9
    low, high = one.longest_gap_s
    assert low - 1e-6 <= length / 1000 <= high + 1e-6
    left = slivers(windows([gap], window, round(16 / window), rounding).value.tolist(), window)
    assert high <= length / 1000 + 2 * 0.01 * window + left + 1e-6
    assert one.start_s - one.start_error_s <= gap[0]
    assert one.end_s is not None
    assert gap[1] <= one.end_s + one.end_error_s


def test_a_gap_of_100_ms_in_one_window_is_a_suspected_dip_and_no_valley() -> None:
    found = assessed([(9.05, 9.15)], 16.0, 0.2, "nearest")
    (dip,) = found.dips
    assert found.valleys == ()
    assert (dip.device, dip.confirmed, dip.agreeing) == ("GPU-a", False, ("device.busy",))
    assert (dip.start_s, dip.end_s) == pytest.approx((9.0, 9.2))
    assert dip.idle_s == pytest.approx(0.1, abs=1e-6)
    assert dip.longest_gap_s == pytest.approx((0.0, 0.102))


def test_the_edge_of_a_gap_that_takes_little_of_a_window_belongs_to_its_valley() -> None:
    # 97 %, 0 %, 53 %: three points are no fall by half, and yet 6 ms of the gap.
    (valley,) = assessed([(9.194, 9.494)], 16.0, 0.2, "nearest").valleys
    assert valley.idle_s == pytest.approx(0.3, abs=0.003)
    assert valley.start_s == pytest.approx(9.194, abs=0.002)
    assert valley.end_s == pytest.approx(9.494, abs=0.002)
    assert valley.longest_gap_s is not None
    assert valley.longest_gap_s == pytest.approx((0.199, 0.302))


def test_idle_that_a_dip_shows_is_spread_idle_and_told_once() -> None:
    found = assessed([(9.05, 9.15), (11.05, 11.15)], 20.0, 0.2, "nearest")
    rows = {row.cause: row.device_seconds for row in found.ledger}
    assert rows == {"busy": pytest.approx(19.8, abs=0.01), "spread_idle": pytest.approx(0.2, abs=0.01)}
    (count,) = found.dip_counts
    assert (count.dips, count.confirmed) == (2, 0)
    assert count.idle_s == pytest.approx(0.2, abs=1e-6)


def test_work_that_rounding_down_takes_away_is_not_told_as_idle() -> None:
    # 95 gaps of about 12 ms at all phases: down reads each partial window half a per cent too low.
    begins = [5 + 0.9521 * index for index in range(95)]
    gaps = [(begin, begin + 0.010 + 0.0047 * (index * 0.37 % 1)) for index, begin in enumerate(begins)]
    truth = sum(end - start for start, end in gaps)
    for rounding in ("nearest", "down"):
        rows = {row.cause: row.device_seconds for row in assessed(gaps, 100.0, 0.2, rounding).ledger}
        assert rows["spread_idle"] == pytest.approx(truth, abs=0.03)


@pytest.mark.parametrize("level", [0.83, 1.0])
def test_scatter_of_a_steady_device_is_no_dip(level: float) -> None:
    chance = np.random.default_rng(5)
    gaps = []
    for index in range(500):
        idle = (1 - level) * 0.2 + abs(chance.normal(0, 0.0025))
        gaps.append((0.2 * index + 0.01, 0.2 * index + 0.01 + idle))
    assert len(assessed(gaps, 100.0, 0.2, "nearest").dips) <= 2


def test_windows_next_to_a_valley_or_a_hole_are_no_dips() -> None:
    lines = stream([(9.0, 10.0), (10.25, 10.3)], 16.0, 0.2, "nearest", "nearest")
    assert all(dip.start_s > 10.2 - 1e-6 for dip in analyse(lines)[1].dips)


# The longest gap.


@st.composite
def patterns(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Gaps and the busy times between them; neither so short that rounding could hide it (10 ms of 200)."""
    t, gaps = 1.0, []
    for _ in range(draw(st.integers(1, 6))):
        t += draw(st.integers(10, 700)) / 1000
        end = t + draw(st.integers(10, 900)) / 1000
        gaps.append((t, end))
        t = end
    return gaps


@settings(max_examples=150, deadline=None)
@given(gaps=patterns(), rounding=st.sampled_from(["nearest", "down", "percent", ""]), phase=st.floats(0.0, 0.2))
def test_longest_gap_lies_in_its_bounds_for_any_pattern(gaps: Gaps, rounding: str, phase: float) -> None:
    for made in ("nearest", "down") if rounding == "percent" else (rounding,):
        steps = windows(gaps, 0.2, 60, made, first=-phase)
        low, high = longest_gap(steps, rounding)
        assert low - 1e-6 <= longest_at_rest(gaps, steps) <= high + 1e-6


@st.composite
def resting(draw: st.DrawFn) -> tuple[float, list[tuple[float, float]]]:
    """Where a gap of two windows or more begins, and the idle times that housekeeping (at most 2 % of each window of
    200 ms from 0 on) leaves of it."""
    begin, length = draw(st.floats(1.0, 1.2)), draw(st.floats(0.5, 3.0))
    t, gaps = begin, []
    for index in range(int(begin / 0.2), int((begin + length) / 0.2) + 1):
        work = draw(st.floats(0.0, 0.02)) * 0.2
        first = 0.2 * index + draw(st.floats(0.0, 0.2 - work))
        if begin < first and first + work < begin + length:
            gaps.append((t, first))
            t = first + work
    return begin, [*gaps, (t, begin + length)]


@settings(max_examples=150, deadline=None)
@given(case=resting(), rounding=st.sampled_from(["nearest", "down", "percent", ""]))
def test_housekeeping_does_not_end_a_gap(case: tuple[float, Gaps], rounding: str) -> None:
    begin, gaps = case
    length = gaps[-1][1] - begin
    for made in ("nearest", "down") if rounding == "percent" else (rounding,):
        steps = windows(gaps, 0.2, 30, made)
        inside = (steps.start >= begin) & (steps.end <= begin + length)
        assume(bool((steps.value[inside] > 1e-4).any()))  # a gap that shows none in a whole window has none at its ends
        low, high = longest_gap(steps, rounding)
        assert low - 1e-6 <= length <= high + 1e-6
        assert low >= length - 2 * 0.2 - 2 * 0.03 * 0.2 - 1e-6
        assert high <= length + 2 * 0.01 * 0.2 + slivers(steps.value.tolist(), 0.2) + 1e-6


def test_the_gap_of_a_server_at_rest_is_as_long_as_its_silence() -> None:
    steps = row([1.0, 0.4, *[0.01, 0.02, 0.0, 0.013] * 10, 0.7, 1.0])
    assert longest_gap(steps, "") == pytest.approx((8.0 - 0.002 - 0.0026, 8.0 + 0.12 + 0.06 + 2 * 0.004))


def test_work_of_more_than_housekeeping_ends_a_gap() -> None:
    low, high = longest_gap(row([1.0, *[0.01] * 20, 0.03, *[0.01] * 10, 1.0]), "")
    assert (low, high) == pytest.approx((4.0 - 2 * 0.002, 4.0 + 0.194 + 2 * 0.004))


@settings(max_examples=60, deadline=None)
@given(length=st.floats(0.02, 2.0), phase=st.floats(0.0, 0.2), rounding=st.sampled_from(["nearest", "down"]))
def test_upper_bound_of_a_single_gap_is_tight(length: float, phase: float, rounding: str) -> None:
    steps = windows([(1.0, 1.0 + length)], 0.2, 30, rounding, first=-phase)
    _, high = longest_gap(steps, rounding)
    assert length - 1e-6 <= high <= length + 2 * 0.01 * 0.2 + slivers(steps.value.tolist(), 0.2) + 1e-6


def test_many_short_gaps_in_a_row_are_not_sure_to_be_one() -> None:
    steps = row([1.0, 0.25, 0.25, 1.0])
    assert longest_gap(steps, "") == pytest.approx((0.0, 0.3))


def test_a_partly_busy_window_parts_what_is_idle_around_it() -> None:
    steps = row([0.0, 0.0, 0.9, 0.0, 1.0])
    assert longest_gap(steps, "") == pytest.approx((0.4, 0.42))


def test_a_hole_may_have_been_idle_and_is_never_sure_to_be() -> None:
    steps = Steps(np.array([0.0, 0.2, 0.9]), np.array([0.2, 0.4, 1.1]), np.array([0.0, 0.0, 0.0]))
    assert longest_gap(steps, "") == pytest.approx((0.4, 1.1))


def test_a_valley_whose_windows_are_forgotten_keeps_its_sums_and_no_bounds() -> None:
    dip = Dip("d", 1.0, 10.0, 4000.0, 0.2, 0.2, 4000.0, idle=3990.0, seconds=3990.0, rounding="nearest")
    late = Steps(np.array([3999.8]), np.array([4000.0]), np.array([0.0]))
    found = measure(late, dip, 0.2)
    assert (found.start, found.end, found.idle, found.longest) == (10.0, 4000.0, 3990.0, None)


def test_dips_of_a_day_are_counted_and_the_newest_kept() -> None:
    gaps = [(5.05 + 1.2 * index, 5.1 + 1.2 * index) for index in range(620)]
    found = assessed(gaps, 760.0, 0.2, "nearest")
    (count,) = found.dip_counts
    assert count.dips == 620
    assert len(found.dips) == 500
    assert found.dips[-1].start_s > 740.0


def test_what_is_known_at_a_tick_does_not_hang_on_how_readings_were_drained() -> None:
    gaps = [(6.0 + 0.5 * index, 6.0 + 0.5 * index + 0.03 * (1 + index % 5)) for index in range(60)]
    first, second = (analyse(stream(gaps, 40.0, 0.2, "down", "percent", every))[1] for every in (0.25, 0.5))
    assert first.dips == second.dips
    assert [(item.start_s, item.idle_s, item.longest_gap_s) for item in first.valleys] == [
        (item.start_s, item.idle_s, item.longest_gap_s) for item in second.valleys
    ]


# Windows whose bounds are only known to within an error: GPM's and an exporter's.


@settings(max_examples=40, deadline=None)
@given(length=st.integers(30, 3000), phase=st.floats(0.0, 1.0), chance=st.randoms(use_true_random=False))
def test_windows_with_unsure_bounds_bound_the_idle_time_and_the_longest_gap(
    length: int, phase: float, chance: random.Random
) -> None:
    window, off = 0.2, 0.025
    gap = (9.0 + phase * window, 9.0 + phase * window + length / 1000)
    real = [index * window + chance.uniform(-off, off) for index in range(81)]
    values = [1.0 - idle_within([gap], a, b) / (b - a) for a, b in zip(real, real[1:], strict=False)]
    low = [index for index, value in enumerate(values) if value < 1.0 - 2e-6]
    bounds = low[0] * window, (low[-1] + 1) * window
    dip = Dip("nvml/GPU-a", 1.0, bounds[0], bounds[1], window, window, bounds[1], floor=1.0)
    found = measure(row(values), dip, window, off)
    assert abs(found.idle - length / 1000) <= found.error + 1e-6
    assert found.error <= 2 * off + 1e-6
    assert found.longest is not None
    assert found.longest[0] - 1e-6 <= length / 1000 <= found.longest[1] + 1e-6


@pytest.mark.parametrize(("info", "off"), [({"error": 0.025}, 0.025), ({"error": 0.025, "clock": "realtime"}, 0.0)])
def test_a_valley_states_how_well_its_windows_are_placed(info: dict[str, Any], off: float) -> None:
    (valley,) = analyse(stream([(9.1, 10.3)], 16.0, 0.2, "", "", **info))[1].valleys
    assert valley.idle_error_s == pytest.approx(2 * off, abs=1e-6)
    (dip,) = analyse(stream([(9.05, 9.15)], 16.0, 0.2, "", "", **info))[1].dips
    assert dip.idle_error_s == pytest.approx(off, abs=1e-6)
