"""Sums are kept between two lines and no longer: whatever came last counts in the next answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Source, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId

BUSY = SeriesId("nvml/0", "device.busy")
DEVICE = Source(0.0, "nvml/0", "devices.nvml", "device", {"uuid": "0"}, ("device.busy",), 0.2, window=0.2)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0, 20), st.floats(0, 20)), max_size=40))
def test_asking_in_between_changes_no_answer(steps: list[tuple[float, bool, float, float]]) -> None:
    asked, plain = Timeline(), Timeline()
    for timeline in (asked, plain):
        timeline.apply(DEVICE)
    for index, (value, ask, start, end) in enumerate(steps, 1):
        t = round(index * 0.2, 6)
        for line in (Batch(BUSY.source, [t], {BUSY.key: [value]}), Watermark(BUSY.source, t), Tick(t)):
            if ask:
                asked.mean(BUSY, start, end)
                asked.coverage(BUSY, 0.0, 20.0)
            asked.apply(line)
            plain.apply(line)
        for question in (Timeline.mean, Timeline.extremes, Timeline.coverage):
            assert question(asked, BUSY, start, end) == question(plain, BUSY, start, end)
            assert question(asked, BUSY, 0.0, 20.0) == question(plain, BUSY, 0.0, 20.0)
