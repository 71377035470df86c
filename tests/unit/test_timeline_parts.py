"""The store below the series: intervals, pieces and the pyramid over them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.timeline.intervals import Intervals
from gaptop.timeline.pyramid import Pyramid

HOUR = 3600 * 1_000_000


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=30), st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=80, deadline=None)
def test_intervals_are_a_set_of_moments(added: list[tuple[int, int]], start: int, end: int) -> None:
    made = Intervals()
    moments: set[int] = set()
    for a, length in added:
        grown = moments | set(range(a, a + length))
        assert made.add(a, a + length) == (grown != moments)
        moments = grown
    asked = set(range(start, end))
    assert made.total(start, end) == len(moments & asked)
    parts = list(made.outside(start, end))
    assert {moment for a, b in parts for moment in range(a, b)} == asked - moments
    whole = list(made.within(-1, 100))
    assert {moment for a, b in whole for moment in range(a, b)} == moments
    assert all(b < c for (_, b), (c, _) in pairwise(whole)), "touching intervals are one"
    assert not moments or made.last == max(moments) + 1
    made.drop_before(start)
    assert {moment for a, b in made.within(start, 100) for moment in range(a, b)} >= {m for m in moments if m >= start}


def filled(increments: bool, lengths: list[int], gap_every: int = 7) -> Pyramid:
    made = Pyramid(increments)
    t = 1_000
    for i, length in enumerate(lengths):
        start = t + (length // 2 if i % gap_every == 0 else 0)
        made.put(start, start + length, float(i % 13))
        t = start + length
    return made


@pytest.mark.parametrize("increments", [False, True])
@given(
    lengths=st.lists(st.integers(1, 5_000), max_size=400),
    marks=st.lists(st.integers(-100, 800_000), min_size=2, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_totals_are_sums_over_pieces(increments: bool, lengths: list[int], marks: list[int]) -> None:
    made = filled(increments, lengths)
    edges = np.array(sorted(marks))
    totals = made.columns(edges)
    starts, ends, values = made.select(-(10**9), 10**9)
    assert len(values) == len(lengths)
    share = np.clip(np.minimum(ends, edges[1:, None]) - np.maximum(starts, edges[:-1, None]), 0, None)
    assert totals.covered * 1e6 == pytest.approx(share.sum(axis=1), abs=1e-3)
    weight = share / (ends - starts) if increments else share / 1e6
    assert totals.integral == pytest.approx(weight @ values, rel=1e-9, abs=1e-12)
    for i, (a, b) in enumerate(pairwise(edges.tolist())):
        low, high, integral, covered = made.total(a, b)
        assert (integral, covered) == pytest.approx((totals.integral[i], totals.covered[i]), rel=1e-9, abs=1e-12)
        if covered:
            assert (low, high) == (totals.low[i], totals.high[i])


def test_pieces_taken_back_leave_no_trace() -> None:
    made = filled(False, [100] * 200)
    before = made.columns(np.arange(0, 30_000, 700))
    mark = made.mark()
    for i in range(150):
        made.put(made.end + 10, made.end + 60, 1e6 + i)
        made.settle()
    made.rewind(mark)
    after = made.columns(np.arange(0, 30_000, 700))
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_pieces_taken_back_after_older_ones_were_dropped() -> None:
    made = filled(False, [100] * 1000)
    mark = made.mark()
    made.put(made.end, made.end + 100, 5.0)
    made.shed()
    made.rewind(mark)
    starts, ends, _ = made.select(0, 10**9)
    assert ends[-1] == mark[1]
    assert made.forgotten is not None
    assert starts[0] >= made.forgotten


def test_a_lengthened_piece_is_seen_at_once() -> None:
    made = Pyramid(False)
    made.put(0, 100, 1.0)
    assert made.total(0, 1000)[3] == pytest.approx(100e-6)
    assert made.extend(100, 200, 1.0)
    assert made.total(150, 1000)[3] == pytest.approx(50e-6)
    assert made.columns(np.array([150, 1000])).covered[0] == pytest.approx(50e-6)
    assert not made.extend(200, 300, 2.0)
    assert not made.extend(250, 300, 1.0)


def test_silence_longer_than_an_offset_can_say() -> None:
    made = Pyramid(False)
    made.put(0, 100, 1.0)
    made.put(5 * HOUR, 5 * HOUR + 100, 2.0)
    made.put(5 * HOUR + 100, 5 * HOUR + 200, 3.0)
    for second in range(100):
        made.put(6 * HOUR + second * 60_000_000, 6 * HOUR + second * 60_000_000 + 1_000, 4.0)
    starts, ends, values = made.select(-1, 100 * HOUR)
    assert len(values) == 103
    assert (starts[1], ends[1], starts[2]) == (5 * HOUR, 5 * HOUR + 100, 5 * HOUR + 100)
    assert made.total(100, 5 * HOUR) == (0.0, 0.0, 0.0, 0.0) or made.total(100, 5 * HOUR)[3] == 0.0
    assert made.total(0, 100 * HOUR)[3] == pytest.approx(300e-6 + 0.1)
    assert made.columns(np.array([0, 5 * HOUR, 6 * HOUR, 9 * HOUR])).covered == pytest.approx([1e-4, 2e-4, 0.1])


def test_cut_back_returns_what_it_takes() -> None:
    made = filled(False, [100] * 300, gap_every=1000)
    total = len(made.select(0, 10**9)[0])
    moment = 1_000 + 50 + 100 * 150
    starts, ends, values = made.cut_back(moment)
    assert starts[0] <= moment
    assert len(made.select(0, 10**9)[0]) + len(starts) == total
    for start, end, value in zip(starts.tolist(), ends.tolist(), values.tolist(), strict=True):
        made.put(start, end, value)
    assert len(made.select(0, 10**9)[0]) == total
