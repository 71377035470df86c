"""What a rolling picture asks for again and again is cheap: whole groups are summed up for wide columns alone, and
sources are looked at once between two lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partialmethod

import numpy as np
import pytest

from gaptop.recording.lines import Batch, Frames, Source, Spans, Tick, Watermark
from gaptop.timeline.pyramid import Pyramid
from gaptop.timeline.runs import Runs
from gaptop.timeline.threads import States
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId

RUNNING = SeriesId("metrics/a", "sched.running")
THREAD = ThreadId("threads/7", 7)
SERVER = Source(0.0, "metrics/a", "engines.vllm", "server", {}, ("sched.running",), 0.2)
STACKS = Source(0.0, "threads/7", "host.threads_pyspy", "process", {}, ("host.thread_activity",), 0.2)
READINGS = 1000


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often whole groups were summed up, by the kind of history."""
    counted: Counter[str] = Counter()
    for kind in (Pyramid, States):
        monkeypatch.setattr(kind, "_summarise", partialmethod(_counted, kind._summarise, counted, kind.__name__))
    return counted


def _counted(
    history: Runs, whole: Callable[[Runs, int, int], None], counted: Counter[str], kind: str, first: int, after: int
) -> None:
    counted[kind] += 1
    whole(history, first, after)


def test_narrow_columns_need_no_sums_of_whole_groups_and_wide_ones_get_them(summed: Counter[str]) -> None:
    timeline = Timeline(lambda frames: "schedule")
    timeline.apply(SERVER)
    timeline.apply(STACKS)
    timeline.apply(Frames(THREAD.source, {"1": [["step", "engine.py", 1]], "2": [["other", "engine.py", 2]]}))
    for index in range(1, READINGS + 1):
        t = round(index * 0.2, 6)
        timeline.apply(Batch(RUNNING.source, [t], {RUNNING.key: [float(index % 7)]}))
        before = round(t - 0.2, 6)
        timeline.apply(Spans(THREAD.source, (before, t), [THREAD.tid], [before], [t], [1 + index % 2]))
        timeline.apply(Watermark(RUNNING.source, t))
        timeline.apply(Tick(t))
        timeline.columns(RUNNING, t - 5.0, t, 10)
        timeline.share_columns(THREAD, t - 5.0, t, 10)
    assert not summed
    end = READINGS * 0.2
    wide = timeline.columns(RUNNING, 0.0, end, 2)
    steps = timeline.steps(RUNNING, 0.0, end)
    half = end / 2
    for column, (start, after) in enumerate(((0.0, half), (half, end))):
        seconds = np.clip(np.minimum(steps.end, after) - np.maximum(steps.start, start), 0.0, None)
        assert wide.mean[column] == pytest.approx((seconds * steps.value).sum() / seconds.sum())
        assert (wide.low[column], wide.high[column]) == (0.0, 6.0)
    assert timeline.share_columns(THREAD, 0.0, end, 1).seconds.sum() == pytest.approx(end)
    assert summed["Pyramid"]
    assert summed["States"]


def test_sources_are_looked_at_once_between_two_lines_and_anew_after_each() -> None:
    timeline = Timeline()
    timeline.apply(SERVER)
    first = timeline.sources
    assert timeline.sources is first
    timeline.apply(Watermark(RUNNING.source, 3.0))
    assert (first["metrics/a"].watermark, timeline.sources["metrics/a"].watermark) == (0.0, 3.0)
