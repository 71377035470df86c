"""Merged stacks of an interval: exact seconds, every second of the range told, functions merged whatever their line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import Frames, Hole, Line, Source, Spans, Tick, Watermark
from gaptop.timeline.merged import heaviest, top, tree
from gaptop.timeline.stacks import Frame
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import StackTime, StackTimes, ThreadId

SOURCE = "threads/7"
THREAD = ThreadId(SOURCE, 7)
STACKS = {
    "10": [["run", "a.py", 1], ["launch", "b.py", 2]],
    "11": [["run", "a.py", 5], ["launch", "b.py", 3]],
    "12": [["run", "a.py", 1], ["wait", "c.py", 4]],
    "13": [["run", "a.py", 1], ["launch", "b.py", 2], ["wait", "c.py", 4]],
}


def timeline(keep: float = 3600.0) -> Timeline:
    made = Timeline(lambda frames: "idle" if frames[-1][0] == "wait" else "launch", keep)
    made.apply(Source(0.0, SOURCE, "host.threads_pyspy", "process", {"pid": 7}, (), 0.02))
    made.apply(Frames(SOURCE, STACKS))
    return made


def spans(covered: tuple[float, float], *rows: tuple[float, float, int], tid: int = 7) -> Spans:
    starts, ends, stacks = ([row[i] for row in rows] for i in range(3))
    return Spans(SOURCE, covered, [tid] * len(rows), starts, ends, stacks)  # type: ignore[arg-type]


def by_stack(times: StackTimes) -> dict[int, float]:
    return {item.stack: item.seconds for item in times.stacks}


def made_of(*parts: tuple[float, tuple[Frame, ...]]) -> StackTimes:
    rows = tuple(StackTime(n, "launch", frames, seconds) for n, (seconds, frames) in enumerate(parts))
    return StackTimes(0.0, 10.0, rows)


def test_each_stack_has_the_seconds_that_it_was_seen_the_longest_first() -> None:
    made = timeline()
    made.apply(spans((0.0, 10.0), (1.0, 1.1, 10), (1.1, 1.3, 11), (1.3, 1.4, 10), (1.4, 2.0, 12), (2.0, 2.1, 10)))
    times = made.stack_times(THREAD, 0.0, 10.0)
    assert by_stack(times) == {12: 0.6, 10: 0.3, 11: 0.2}
    assert [item.stack for item in times.stacks] == [12, 10, 11]
    assert times.stacks[0].frames == (("run", "a.py", 1), ("wait", "c.py", 4))
    assert times.stacks[0].activity == "idle"
    assert times.seen == pytest.approx(1.1)


def test_the_interval_clips_what_reaches_over_its_edges() -> None:
    made = timeline()
    made.apply(spans((0.0, 10.0), (1.0, 2.0, 10), (2.0, 4.0, 12)))
    assert by_stack(made.stack_times(THREAD, 1.75, 2.5)) == {12: 0.5, 10: 0.25}
    assert made.stack_times(THREAD, 5.0, 6.0).stacks == ()
    assert made.stack_times(THREAD, 3.0, 2.0).seen == 0.0


def test_every_second_of_the_range_is_told() -> None:
    made = timeline()
    for line in (
        spans((2.0, 4.0), (2.0, 3.5, 10)),
        Watermark(SOURCE, 4.0),
        Hole(SOURCE, 4.0, 5.0, "handover"),
        spans((5.0, 6.0), (5.0, 6.0, 12)),
        Watermark(SOURCE, 7.0),
        Tick(9.0),
    ):
        made.apply(line)
    times = made.stack_times(THREAD, 1.0, 9.0)
    assert by_stack(times) == {10: 1.5, 12: 1.0}
    assert times.absent == 0.5, "the recorder watched, the thread was not there"
    assert times.hole == 1.0
    assert times.pending == 2.0, "beyond the watermark at 7 s"
    assert times.unwatched == 2.0, "before 2 s and from 6 to 7 s nobody watched"
    assert times.dropped == 0.0


def test_a_late_hole_takes_its_time_back() -> None:
    made = timeline()
    made.apply(spans((0.0, 4.0), (0.0, 4.0, 10)))
    assert made.stack_times(THREAD, 0.0, 4.0).seen == 4.0
    made.apply(Hole(SOURCE, 1.0, 2.0, "it was not watching"))
    times = made.stack_times(THREAD, 0.0, 4.0)
    assert (times.seen, times.hole, times.absent) == (3.0, 1.0, 0.0)


def test_a_thread_that_nobody_saw_is_not_idle() -> None:
    made = timeline()
    made.apply(spans((0.0, 4.0), (0.0, 4.0, 10)))
    made.apply(Watermark(SOURCE, 4.0))
    times = made.stack_times(ThreadId(SOURCE, 8), 0.0, 5.0)
    assert (times.stacks, times.absent, times.pending) == ((), 4.0, 1.0)
    nobody = made.stack_times(ThreadId("threads/9", 9), 0.0, 5.0)
    assert (nobody.stacks, nobody.unwatched) == ((), 5.0)


def test_what_was_forgotten_is_said() -> None:
    made = timeline(keep=10.0)
    for second in range(40):
        rows = [(second + i / 50, second + (i + 1) / 50, 10 + i % 3) for i in range(50)]
        made.apply(spans((second, second + 1), *rows))
        made.apply(Tick(second + 1.0))
    times = made.stack_times(THREAD, 0.0, 40.0)
    assert times.dropped == 30.0
    assert times.seen == pytest.approx(10.0)
    assert made.stack_times(THREAD, 30.0, 40.0).dropped == 0.0
    gone = made.stack_times(ThreadId(SOURCE, 8), 0.0, 40.0)
    assert (gone.dropped, gone.absent) == (30.0, 10.0)


def test_a_history_that_memory_had_no_room_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaptop.timeline.runs._MOST", 1 << 10)
    made = timeline()
    for second in range(200):
        rows = [(second + i / 50, second + (i + 1) / 50, 10 + i % 3) for i in range(50)]
        made.apply(spans((second, second + 1), *rows))
    times = made.stack_times(THREAD, 0.0, 200.0)
    assert times.dropped > 50.0
    assert times.dropped + times.seen == pytest.approx(200.0)


def test_a_stack_whose_frames_never_came_is_no_function() -> None:
    made = timeline()
    made.apply(spans((0.0, 4.0), (0.0, 1.0, 999), (1.0, 4.0, 10)))
    times = made.stack_times(THREAD, 0.0, 4.0)
    assert by_stack(times) == {10: 3.0, -1: 1.0}
    root = tree([times])
    assert root.own == 1.0, "told apart, and no frame is invented for it"
    assert root.seconds == 4.0
    assert [item.frames[-1] for item in heaviest(root, 5)] == [("launch", "b.py", 2)]


@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from([0, 0, 50]), st.sampled_from([10, 11, 12])), max_size=60),
    st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 2000)), max_size=3),
    st.integers(0, 9000),
    st.integers(1, 9000),
    st.integers(0, 9000),
)
@settings(max_examples=60, deadline=None)
def test_any_range_adds_up_to_itself(
    pieces: list[tuple[int, int, int]], holes: list[tuple[int, int]], start: int, length: int, mark: int
) -> None:
    made = timeline()
    rows, t = [], 0
    for took, gap, stack in pieces:
        rows.append(((t + gap) / 1000, (t + gap + took) / 1000, stack))
        t += gap + took
    lines: list[Line] = [spans((0.0, max(t, 1) / 1000), *rows), Watermark(SOURCE, mark / 1000), Tick(10.0)]
    lines += [Hole(SOURCE, a / 1000, (a + b) / 1000, "x") for a, b in holes]
    for line in lines:
        made.apply(line)
    low, high = start / 1000, (start + length) / 1000
    times = made.stack_times(THREAD, low, high)
    rest = (times.absent, times.hole, times.pending, times.unwatched, times.dropped)
    assert min(rest) >= 0.0
    assert times.seen + sum(rest) == pytest.approx(high - low, abs=2e-6)
    halves = made.stack_times(THREAD, low, (low + high) / 2), made.stack_times(THREAD, (low + high) / 2, high)
    for stack, seconds in by_stack(times).items():
        assert sum(by_stack(half).get(stack, 0.0) for half in halves) == pytest.approx(seconds, abs=2e-6)
    shares = made.shares(THREAD, low, high)
    assert sum(shares.values()) == pytest.approx(times.seen, abs=1e-5)


def test_functions_merge_whatever_their_line_and_show_the_heaviest_one() -> None:
    made = timeline()
    made.apply(spans((0.0, 10.0), (0.0, 1.0, 10), (1.0, 3.0, 11), (3.0, 4.0, 12), (4.0, 4.5, 13)))
    root = tree([made.stack_times(THREAD, 0.0, 10.0)])
    assert [(item.frames, item.seconds, item.activity) for item in heaviest(root, 2)] == [
        ((("run", "a.py", 1), ("launch", "b.py", 3)), 3.0, "launch"),
        ((("run", "a.py", 1), ("wait", "c.py", 4)), 1.0, "idle"),
    ]
    (run,) = root.children
    assert (run.function, run.file, run.line, run.seconds, run.own) == ("run", "a.py", 1, 4.5, 0.0)
    assert [(item.function, item.seconds, item.own) for item in run.children] == [
        ("launch", 3.5, 3.0),
        ("wait", 1.0, 1.0),
    ]


def test_top_functions_by_own_time_and_with_all_that_they_call() -> None:
    main, a, b = ("main", "m.py", 1), ("a", "m.py", 2), ("b", "m.py", 3)
    root = tree([made_of((2.0, (main, a)), (3.0, (main, a, b, a)), (1.0, (main,)))])
    assert [(item.function, item.own, item.total) for item in top(root)] == [
        ("a", 5.0, 5.0),
        ("main", 1.0, 6.0),
        ("b", 0.0, 3.0),
    ]
    assert [item.line for item in top(root)] == [2, 1, 3]


def test_several_threads_merge_into_one() -> None:
    main, a = ("main", "m.py", 1), ("a", "m.py", 2)
    root = tree([made_of((2.0, (main, a))), made_of((1.5, (main, a)), (0.5, (main,)))])
    assert root.seconds == 4.0
    assert [(item.frames, item.seconds) for item in heaviest(root, 5)] == [((main, a), 3.5), ((main,), 0.5)]


def test_the_deepest_stack_that_is_kept_can_be_merged() -> None:
    made = timeline()
    made.apply(Frames(SOURCE, {"20": [[f"f{n}", "deep.py", n] for n in range(1000)]}))
    made.apply(spans((0.0, 1.0), (0.0, 1.0, 20)))
    root = tree([made.stack_times(THREAD, 0.0, 1.0)])
    (path,) = heaviest(root, 5)
    assert path.frames[-1] == ("f999", "deep.py", 999)
    assert len(path.frames) == len(top(root)) == 256


def test_one_name_in_two_files_is_two_functions() -> None:
    root = tree([made_of((2.0, (("run", "a.py", 1),)), (1.0, (("run", "b.py", 1),)))])
    assert [(item.function, item.file, item.own) for item in top(root)] == [("run", "a.py", 2.0), ("run", "b.py", 1.0)]
