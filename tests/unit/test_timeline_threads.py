"""Thread states: merging, classifying once, covered time, holes, zoomed shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import Frames, Hole, Line, Source, Spans, Tick, decode, encode
from gaptop.timeline.source import SourceState
from gaptop.timeline.stacks import Stacks
from gaptop.timeline.threads import Thread
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Span, ThreadId
from gaptop_collectors.signals import ACTIVITIES

THREAD = ThreadId("threads/7", 7)
STACKS = {
    "10": [["run", "a.py", 1], ["launch", "b.py", 2]],
    "11": [["run", "a.py", 1], ["launch", "b.py", 3]],
    "12": [["run", "a.py", 1], ["idle", "b.py", 4]],
    "13": [["run", "a.py", 1], ["strange", "b.py", 4]],
}
ACTIVITY = {10: "launch", 11: "launch", 12: "idle", 13: "other"}


def classify(frames: Sequence[tuple[str, str, int]]) -> str:
    return frames[-1][0]


def timeline(keep: float = 3600.0) -> Timeline:
    made = Timeline(classify, keep)
    entity = {"pid": 7, "role": "engine", "threads": [{"tid": 7, "name": "EngineCore"}, "junk", {"tid": 8}]}
    made.apply(Source(0.0, "threads/7", "host.threads_pyspy", "process", entity, (), 0.02))
    made.apply(Frames("threads/7", STACKS))
    return made


def spans(*rows: tuple[float, float, int], covered: tuple[float, float] = (0.0, 100.0), tid: int = 7) -> Spans:
    starts, ends, stacks = ([row[i] for row in rows] for i in range(3))
    return Spans("threads/7", covered, [tid] * len(rows), starts, ends, stacks)  # type: ignore[arg-type]


def test_stacks_of_one_activity_are_kept_apart() -> None:
    """Where only the longest of them was kept, up to 36 % of a recorded vLLM thread's time had the wrong leaf."""
    made = timeline()
    made.apply(spans((1.0, 1.02, 10), (1.02, 1.08, 11), (1.08, 1.1, 12), (1.2, 1.3, 12)))
    assert made.spans(THREAD, 0.0, 9.0) == (
        Span(1.0, 1.02, "launch", 10),
        Span(1.02, 1.08, "launch", 11),
        Span(1.08, 1.1, "idle", 12),
        Span(1.2, 1.3, "idle", 12),
    )
    assert made.frames(11) == (("run", "a.py", 1), ("launch", "b.py", 3))
    assert made.threads() == made.threads("threads/7") == (THREAD,)
    assert made.threads("other") == ()


def test_neighbours_of_one_stack_are_one_state() -> None:
    made = timeline()
    made.apply(spans((1.0, 2.0, 10), (2.0, 3.0, 10), covered=(0.0, 3.0)))
    made.apply(spans((3.0, 4.0, 10), (4.0, 5.0, 11), covered=(3.0, 5.0)))
    assert made.spans(THREAD, 0.0, 9.0) == (Span(1.0, 4.0, "launch", 10), Span(4.0, 5.0, "launch", 11))


def test_spans_of_one_line_may_come_in_any_order() -> None:
    made = timeline()
    made.apply(spans((2.0, 3.0, 12), (1.0, 2.0, 10)))
    assert made.spans(THREAD, 0.0, 9.0) == (Span(1.0, 2.0, "launch", 10), Span(2.0, 3.0, "idle", 12))


def test_what_was_seen_already_is_ignored() -> None:
    made = timeline()
    made.apply(spans((1.0, 2.0, 10)))
    made.apply(spans((0.5, 1.5, 12), (1.5, 2.5, 12)))
    assert made.spans(THREAD, 0.0, 9.0) == (Span(1.0, 2.0, "launch", 10), Span(2.0, 2.5, "idle", 12))


def test_a_stack_that_stays_takes_one_piece_whatever_the_number_of_windows() -> None:
    thread = Thread(SourceState(Source(0.0, "threads/7", "x", "process", {}, (), 4.0), 0), Stacks(None))
    for window in range(900):
        thread.see(window * 4_000_000, (window + 1) * 4_000_000, 3)
    assert thread.ready().count == 1


@pytest.mark.parametrize("before", range(62, 67))
def test_a_state_is_whole_where_groups_of_pieces_meet(before: int) -> None:
    made = timeline()
    made.apply(spans(*((i / 10, (i + 1) / 10, (10, 11)[i % 2]) for i in range(before)), (before / 10, 10.0, 12)))
    made.apply(spans((10.0, 11.0, 12)))
    found = made.spans(THREAD, 0.0, 99.0)
    assert len(found) == before + 1
    assert found[-1] == Span(before / 10, 11.0, "idle", 12)


@pytest.mark.parametrize("asked", [False, True])
def test_states_do_not_depend_on_who_asked_when(asked: bool) -> None:
    """Also where a hole comes late."""
    made = timeline()
    stacks = [10, 12, 11, 12] * 40
    rows = [(i / 10, (i + 1) / 10, stack) for i, stack in enumerate(stacks)]
    made.apply(spans(*rows[:100]))
    made.apply(Hole("threads/7", 3.0, 3.5, "late"))
    if asked:
        made.spans(THREAD, 0.0, 99.0)
    made.apply(spans(*rows[100:]))
    made.apply(spans((16.0, 16.5, 12), (16.5, 17.0, 12)))
    if asked:
        made.spans(THREAD, 0.0, 99.0)
    made.apply(spans((17.0, 18.0, 12)))
    found = made.spans(THREAD, 0.0, 99.0)
    assert len(found) == len(rows) - 5
    assert found[-1] == Span(15.9, 18.0, "idle", 12)
    assert [span.stack for span in found[28:32]] == [10, 12, 12, 10]
    assert sum(span.end - span.start for span in found) == pytest.approx(17.5)


def test_shares_count_only_what_was_covered() -> None:
    made = timeline()
    made.apply(spans((1.0, 2.0, 10), (2.0, 4.0, 12), covered=(1.5, 3.0)))
    assert made.shares(THREAD, 0.0, 9.0) == {"launch": 0.5, "idle": 1.0}
    assert made.shares(THREAD, 1.75, 2.25) == {"launch": 0.25, "idle": 0.25}
    assert made.watched("threads/7", 0.0, 9.0) == 1.5
    assert made.shares(ThreadId("threads/7", 99), 0.0, 9.0) == {}
    assert made.watched("nobody", 0.0, 9.0) == 0.0


@pytest.mark.parametrize("late", [False, True])
def test_a_hole_cuts_states(late: bool) -> None:
    made = timeline()
    lines: list[Line] = [spans((1.0, 2.0, 10), (2.0, 4.0, 12)), Hole("threads/7", 1.5, 3.0, "handover")]
    for line in lines if late else lines[::-1]:
        made.apply(line)
    assert made.shares(THREAD, 0.0, 9.0) == {"launch": 0.5, "idle": 1.0}
    assert made.watched("threads/7", 0.0, 4.0) == 2.5
    assert [(span.start, span.end) for span in made.spans(THREAD, 0.0, 9.0)] == [(1.0, 1.5), (3.0, 4.0)]


def test_each_stack_is_classified_once_and_repeats_are_ignored() -> None:
    asked: list[object] = []

    def count(frames: Sequence[tuple[str, str, int]]) -> str:
        asked.append(frames)
        return "launch"

    made = Timeline(count)
    made.apply(Source(0.0, "threads/7", "host.threads_pyspy", "process", {}, (), 0.02))
    for _ in range(3):
        made.apply(Frames("threads/7", STACKS))
        made.apply(spans((1.0, 2.0, 10)))
    assert len(asked) == len(STACKS)
    assert made.spans(THREAD, 0.0, 9.0) == (Span(1.0, 2.0, "launch", 10),)


def test_without_rules_and_without_frames_it_is_other() -> None:
    made = Timeline()
    made.apply(Source(0.0, "threads/7", "host.threads_pyspy", "process", {}, (), 0.02))
    made.apply(Frames("threads/7", STACKS))
    made.apply(spans((1.0, 2.0, 10), (3.0, 4.0, 999)))
    assert [(span.activity, span.stack) for span in made.spans(THREAD, 0.0, 9.0)] == [("other", 10), ("other", -1)]
    assert made.frames(999) == made.frames(-1) == ()


def test_a_later_map_rereads_the_frames() -> None:
    made = Timeline(lambda frames: "tokenize" if frames[-1][0] == "strange" else "other")
    made.apply(Source(0.0, "threads/7", "host.threads_pyspy", "process", {}, (), 0.02))
    for line in (Frames("threads/7", STACKS), spans((1.0, 2.0, 13), (2.0, 4.0, 10))):
        again = decode(encode(line))
        assert again is not None
        made.apply(again)
    assert made.shares(THREAD, 0.0, 9.0) == {"tokenize": 1.0, "other": 2.0}


def test_forgotten_stacks_make_room() -> None:
    stacks = Stacks(classify)
    for i in range(200_000):
        if stacks.full:
            stacks.sweep({0})
        stacks.add(i, [["f", "a.py", 1]])
    assert len(stacks.codes()) == 65_537
    assert stacks.frames(199_999) == (("f", "a.py", 1),)
    assert stacks.frames(0) == ()


def test_names() -> None:
    made = timeline()
    assert made.thread_name(THREAD) == "EngineCore"
    assert made.thread_name(ThreadId("elsewhere", 7)) == "EngineCore"
    assert made.thread_name(ThreadId("threads/7", 8)) == "8"


def test_old_states_are_forgotten() -> None:
    made = timeline(keep=10.0)
    for second in range(100):
        rows = [(second + i / 50, second + (i + 1) / 50, 10 + 2 * (i % 2)) for i in range(50)]
        made.apply(spans(*rows, covered=(second, second + 1)))
        made.apply(Tick(float(second)))
    assert 500 <= len(made.spans(THREAD, 0.0, 1e6)) <= 1600
    assert sum(made.shares(THREAD, 90.0, 100.0).values()) == pytest.approx(10.0)
    made.apply(Tick(500.0))
    assert made.threads() == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([0, 0, 0, 30]), st.sampled_from(sorted(ACTIVITY))), max_size=150
    ),
    st.sets(st.integers(0, 150)),
    st.integers(1, 40),
)
@settings(max_examples=40, deadline=None)
def test_any_lines_give_the_same_and_columns_are_sums(
    pieces: list[tuple[int, int, int]], cuts: set[int], n: int
) -> None:
    rows: list[tuple[float, float, int]] = []
    t = 0
    for length, gap, stack in pieces:
        rows.append(((t + gap) / 1000, (t + gap + length) / 1000, stack))
        t += gap + length
    end = max(t, 1) / 1000
    whole, parts = timeline(), timeline()
    whole.apply(spans(*rows, covered=(0.0, end)))
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for first, after in zip(bounds, bounds[1:], strict=False):
        parts.apply(spans(*rows[first:after], covered=(0.0, end)))
        parts.shares(THREAD, 0.0, end)
    assert whole.spans(THREAD, 0.0, end) == parts.spans(THREAD, 0.0, end)
    columns = whole.share_columns(THREAD, 0.0, end, n)
    assert columns.watched.sum() == pytest.approx(end)
    assert np.array_equal(columns.seconds, parts.share_columns(THREAD, 0.0, end, n).seconds)
    edges = np.linspace(0.0, end, n + 1)
    starts, ends = (np.array([row[i] for row in rows]) for i in range(2))
    share = np.clip(np.minimum(ends, edges[1:, None]) - np.maximum(starts, edges[:-1, None]), 0.0, None)
    for j, activity in enumerate(ACTIVITIES):
        mine = [i for i, row in enumerate(rows) if ACTIVITY[row[2]] == activity]
        assert columns.seconds[:, j] == pytest.approx(share[:, mine].sum(axis=1), abs=1e-5)
