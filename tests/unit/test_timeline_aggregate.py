"""The mean of several devices: holes stay holes, a late device is no sudden fall."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Hole, Source, Tick, Watermark
from gaptop.timeline.aggregate import mean_columns
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Cover, SeriesId

W = 0.2
A, B = SeriesId("nvml/a", "device.busy"), SeriesId("nvml/b", "device.busy")


def describe(timeline: Timeline, source: str, t: float = 0.0) -> None:
    entity = {"uuid": source, "name": "GPU", "kind2": "gpu", "index": 0, "pids": None}
    timeline.apply(Source(t, source, "devices.nvml", "device", entity, ["device.busy"], 0.25, window=W))


def deliver(timeline: Timeline, source: str, first: int, values: list[float]) -> None:
    """Window readings, the first of which covers (first * W, (first + 1) * W]."""
    times = [round((first + index + 1) * W, 6) for index in range(len(values))]
    timeline.apply(Batch(source, times, {"device.busy": values}))
    timeline.apply(Watermark(source, times[-1]))


def two(first: list[float], second: list[float]) -> Timeline:
    timeline = Timeline()
    for id, values in ((A, first), (B, second)):
        describe(timeline, id.source)
        deliver(timeline, id.source, 0, values)
    timeline.apply(Tick(len(first) * W))
    return timeline


def test_mean_over_devices_with_the_extremes_of_any() -> None:
    columns = mean_columns(two([1.0, 0.0, 0.5, 1.0], [1.0, 1.0, 0.5, 0.0]), (A, B), 0.0, 0.8, 4)
    assert columns.mean.tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5])
    assert columns.low.tolist() == pytest.approx([1.0, 0.0, 0.5, 0.0])
    assert columns.high.tolist() == pytest.approx([1.0, 1.0, 0.5, 1.0])
    assert columns.cover.tolist() == [Cover.DATA] * 4


def test_column_that_one_device_misses_is_marked_and_not_averaged() -> None:
    timeline = two([1.0] * 10, [1.0] * 5)
    timeline.apply(Hole(B.source, 1.0, 1.6, "driver gone"))
    timeline.apply(Tick(2.4))
    columns = mean_columns(timeline, (A, B), 0.0, 2.4, 12)
    assert columns.cover.tolist() == [Cover.DATA] * 5 + [Cover.HOLE] * 3 + [Cover.PENDING] * 4
    assert np.isnan(columns.mean[5:]).all()
    assert np.isnan(columns.low[5:]).all()
    assert columns.mean[:5].tolist() == pytest.approx([1.0] * 5)


def test_device_that_appears_later_counts_from_then_on() -> None:
    timeline = Timeline()
    describe(timeline, A.source)
    deliver(timeline, A.source, 0, [1.0] * 10)
    describe(timeline, B.source, 1.0)
    deliver(timeline, B.source, 5, [0.0] * 5)
    timeline.apply(Tick(2.0))
    columns = mean_columns(timeline, (A, B), 0.0, 2.0, 10)
    assert columns.mean.tolist() == pytest.approx([1.0] * 5 + [0.5] * 5)


def test_of_no_device_nothing_is_known() -> None:
    columns = mean_columns(Timeline(), (), 0.0, 1.0, 3)
    assert columns.cover.tolist() == [Cover.NOTHING] * 3
    assert np.isnan(columns.mean).all()


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.lists(st.integers(0, 100), min_size=12, max_size=12), min_size=1, max_size=4),
    n=st.integers(1, 30),
)
def test_mean_lies_within_the_devices_and_is_theirs_where_they_are_equal(values: list[list[int]], n: int) -> None:
    timeline = Timeline()
    ids = [SeriesId(f"nvml/{index}", "device.busy") for index in range(len(values))]
    for id, column in zip(ids, values, strict=True):
        describe(timeline, id.source)
        deliver(timeline, id.source, 0, [value / 100 for value in column])
    timeline.apply(Tick(2.4))
    columns = mean_columns(timeline, ids, 0.0, 2.4, n)
    each = np.stack([timeline.columns(id, 0.0, 2.4, n).mean for id in ids])
    assert columns.mean == pytest.approx(each.mean(axis=0), abs=1e-6)
    assert (columns.low <= columns.mean).all()
    assert (columns.mean <= columns.high).all()
