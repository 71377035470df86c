"""Rules that hold for any readings: against a plain model, in any batches, over any columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Hole, Line, Source, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Cover, SeriesId

Step = tuple[int, int, float]
Reading = tuple[int, float | None]
"""Time in milliseconds, value."""

KEYS = {
    "window": "device.sm_active",
    "gauge": "device.power",
    "counter": "tokens.decode",
    "merged": "host.oncpu{tid=1}",
}
PERIOD, WINDOW, LAG = 100, 160, 10


@dataclass
class Story:
    """Readings of one series, and holes: (how many readings come before it, start, end)."""

    kind: str
    readings: list[Reading]
    holes: list[tuple[int, int, int]]

    @property
    def id(self) -> SeriesId:
        return SeriesId("s", KEYS[self.kind])

    @property
    def end(self) -> int:
        return max((t for t, _ in self.readings), default=0) + 500


# Mostly regular with some gaps, so that bridging, holding, merging and overlapping all occur.
GAPS = st.sampled_from([100, 100, 100, 80, 200, 230, 260, 400, 9000, 12000])
VALUES = st.one_of(st.none(), st.integers(0, 8).map(lambda n: n / 8), st.just(0.0))


@st.composite
def stories(draw: st.DrawFn, most: int = 40) -> Story:
    kind = draw(st.sampled_from(sorted(KEYS)))
    steps = draw(st.lists(st.tuples(GAPS, VALUES), max_size=most))
    # Enough equal steps to fill groups of pieces now and then.
    repeat = draw(st.sampled_from([1, 1, 5]))
    readings: list[Reading] = []
    t, count = 0, 0.0
    for gap, value in steps * repeat:
        t += gap
        if kind == "counter" and value is not None:
            count = count + value * 8 if value < 1.0 else 0.0
            readings.append((t, count))
        else:
            readings.append((t, value))
    holes = draw(
        st.lists(st.tuples(st.integers(0, len(readings)), st.integers(-100, t + 300), st.integers(1, 900)), max_size=4)
    )
    return Story(kind, readings, sorted((at, start, start + length) for at, start, length in holes))


def play(story: Story, cuts: frozenset[int], ask: bool = False) -> Timeline:
    """The story as lines: a new batch begins at each cut and at each hole."""
    made = Timeline()
    for line in story_lines(story, cuts):
        made.apply(line)
        if ask:
            made.columns(story.id, 0.0, story.end / 1000, 7)
    return made


def story_lines(story: Story, cuts: frozenset[int]) -> list[Line]:
    key = story.id.key
    lines: list[Line] = [
        Source(0.0, "s", "test", "device", {}, (key,), PERIOD / 1000, window=WINDOW / 1000, lag=LAG / 1000)
    ]
    bounds = sorted({0, len(story.readings), *cuts, *(at for at, _, _ in story.holes)})
    holes = list(story.holes)
    for first, after in pairwise([*bounds, bounds[-1]]):
        while holes and holes[0][0] <= first:
            _, a, b = holes.pop(0)
            lines.append(Hole("s", a / 1000, b / 1000, "x"))
        part = story.readings[first:after]
        if part:
            lines.append(Batch("s", [t / 1000 for t, _ in part], {key: [value for _, value in part]}))
    return [*lines, Watermark("s", story.end / 1000), Tick(story.end / 1000)]


def model(story: Story) -> list[Step]:
    """The rules, written plainly."""
    steps: list[Step] = []
    if story.kind == "gauge":
        ends = [*[t for t, _ in story.readings[1:]], story.end][: len(story.readings)]
        for (t, value), end in zip(story.readings, ends, strict=True):
            if value is not None:
                steps.append((t, min(end, t + PERIOD * 5 // 2), value))
    elif story.kind == "counter":
        known = [(t, value) for t, value in story.readings if value is not None]
        for (a, before), (b, value) in pairwise(known):
            if value >= before and b - a <= 10_000:
                steps.append((a, b, (value - before) / (b - a) * 1000))
    else:
        last: int | None = None
        for t, value in story.readings:
            if value is None:
                continue
            end = t - LAG
            start = end - WINDOW
            if last is not None and (start < last or end - last <= WINDOW * 1.5):
                start = last
            last = end
            steps.append((start, end, value))
    for _, a, b in story.holes:
        steps = [piece for step in steps for piece in cut(story.kind, step, a, b)]
    return steps


def cut(kind: str, step: Step, a: int, b: int) -> list[Step]:
    start, end, value = step
    if end <= a or start >= b:
        return [step]
    parts = {"gauge": [(start, a)], "counter": []}.get(kind, [(start, a), (b, end)])
    return [(x, y, value) for x, y in parts if x < y]


def merge(steps: list[Step]) -> list[Step]:
    merged: list[Step] = []
    for step in steps:
        if merged and merged[-1][1] == step[0] and merged[-1][2] == step[2]:
            merged[-1] = (merged[-1][0], step[1], step[2])
        else:
            merged.append(step)
    return merged


def told(made: Timeline, story: Story) -> list[Step]:
    steps = made.steps(story.id, -10.0, story.end / 1000 + 10.0)
    return [
        (round(a * 1000), round(b * 1000), v)
        for a, b, v in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True)
    ]


@given(stories(), st.frozensets(st.integers(0, 200)), st.booleans())
@settings(max_examples=120, deadline=None)
def test_steps_are_those_of_the_model_in_any_batches_and_whoever_asks(
    story: Story, cuts: frozenset[int], ask: bool
) -> None:
    found, wanted = told(play(story, cuts, ask), story), model(story)
    if story.kind == "merged":
        found, wanted = merge(found), merge(wanted)
    assert [step[:2] for step in found] == [step[:2] for step in wanted]
    assert [step[2] for step in found] == pytest.approx([step[2] for step in wanted], rel=1e-6)


@given(stories(), st.frozensets(st.integers(0, 200)), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_batches_change_no_bit(story: Story, cuts: frozenset[int], n: int) -> None:
    whole, parts = play(story, frozenset()), play(story, cuts, ask=True)
    end = story.end / 1000
    one, other = whole.columns(story.id, 0.0, end, n), parts.columns(story.id, 0.0, end, n)
    for name in ("mean", "low", "high", "cover"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert whole.increase(story.id, 0.0, end) == parts.increase(story.id, 0.0, end)
    assert whole.mean(story.id, 0.0, end) == parts.mean(story.id, 0.0, end)


@given(stories(), st.integers(-500, 3000), st.integers(1, 20_000), st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_columns_are_what_the_steps_say(story: Story, start: int, length: int, n: int) -> None:
    made = play(story, frozenset())
    low, high = start / 1000, (start + length * n) / 1000
    columns = made.columns(story.id, low, high, n)
    steps = made.steps(story.id, low, high)
    edges = np.linspace(low, high, n + 1)
    share = np.minimum(steps.end, edges[1:, None]) - np.maximum(steps.start, edges[:-1, None])
    share = np.where(share > 1e-7, share, 0.0)
    covered = share.sum(axis=1)
    seen = covered > 0.0
    assert ((columns.cover == Cover.DATA) == seen).all()
    assert np.isnan(columns.mean[~seen]).all()
    assert columns.mean[seen] * covered[seen] == pytest.approx((share @ steps.value)[seen], rel=1e-5, abs=1e-6)
    for i in np.flatnonzero(seen):
        there = steps.value[share[i] > 0.0]
        assert (columns.low[i], columns.high[i]) == pytest.approx((there.min(), there.max()), rel=1e-6)
    assert (columns.low[seen] <= columns.mean[seen]).all()
    assert (columns.mean[seen] <= columns.high[seen]).all()
    extremes = made.extremes(story.id, low, high)
    assert (extremes is not None) == seen.any()
    assert made.coverage(story.id, low, high) == pytest.approx(covered.sum() / (high - low), abs=1e-6)
    if extremes is not None:
        assert extremes == pytest.approx((columns.low[seen].min(), columns.high[seen].max()), rel=1e-6)


@given(stories(), st.lists(st.integers(0, 30_000), min_size=3, max_size=6, unique=True))
@settings(max_examples=50, deadline=None)
def test_increases_over_adjacent_ranges_add_up(story: Story, moments: list[int]) -> None:
    story.kind = "counter"
    made = play(story, frozenset())
    marks = [moment / 1000 for moment in sorted(moments)]
    parts = [made.increase(story.id, a, b) for a, b in pairwise(marks)]
    whole = made.increase(story.id, marks[0], marks[-1])
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        assert whole == pytest.approx(sum(known), rel=1e-6, abs=1e-9)
    if whole is None:
        assert len(known) < len(parts)


@given(stories())
@settings(max_examples=50, deadline=None)
def test_a_hole_never_has_data(story: Story) -> None:
    made = play(story, frozenset())
    for _, a, b in story.holes:
        assert Cover.DATA not in made.columns(story.id, a / 1000, b / 1000, 9).cover
        assert made.value_at(story.id, (a + b) / 2000) is None


@given(stories(), st.integers(0, 40))
@settings(max_examples=50, deadline=None)
def test_later_readings_change_no_finished_column(story: Story, some: int) -> None:
    story.holes = []
    part = Story(story.kind, story.readings[:some], [])
    early, full = play(part, frozenset()), play(story, frozenset())
    # The newest reading's own step is not finished; what ends before the step before it is.
    finished = [t for t, value in part.readings if value is not None][-3:-2]
    if finished:
        end = finished[0] // 1000
        for name in ("mean", "low", "high", "cover"):
            one = getattr(early.columns(story.id, 0.0, float(end), end * 4), name)
            assert one.tobytes() == getattr(full.columns(story.id, 0.0, float(end), end * 4), name).tobytes()
