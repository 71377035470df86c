"""A thread's lane: what it did, below it the share on a core, waiting for one, asleep; and whose thread it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gaptop.recording.lines import Batch, Frames, Hole, Line, Source, Spans, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui import layout
from gaptop.tui.glyphs import ASCII
from gaptop.tui.lanes.lane import Drawn, Lane
from gaptop.tui.lanes.picture import picture_rows
from gaptop.tui.lanes.rack import Rack
from tests.snapshots.scenes import columns_of, scene_of, told

WINDOW = 0.25
ENTITY = {"pid": 210, "role": "engine", "critical_tid": 210, "threads": [{"tid": 210, "name": "MainThread"}]}
BOOKED = ("host.oncpu", "host.runqueue_wait", "host.blocked")
PROC = Source(0.0, "proc/210", "host.proc_watch", "process", ENTITY, BOOKED, WINDOW, window=WINDOW)
STACKS = Source(0.0, "threads/210", "host.threads_pyspy", "process", ENTITY, ("host.thread_activity",), 0.04)


def booked(shares: Sequence[tuple[float, float] | None], tid: int = 210) -> list[Line]:
    """(on a core, waiting for one) of each window; the rest sleeps."""
    lines: list[Line] = [PROC]
    for index, share in enumerate(shares):
        t = (index + 1) * WINDOW
        if share is not None:
            ran, waited = share
            values: Mapping[str, list[float | None]] = {
                f"host.oncpu{{tid={tid}}}": [ran],
                f"host.runqueue_wait{{tid={tid}}}": [waited],
                f"host.blocked{{on=futex,tid={tid}}}": [round(1 - ran - waited, 6)],
            }
            lines.append(Batch(PROC.id, [t], values))
        lines.append(Watermark(PROC.id, t))
    return [*lines, Tick(len(shares) * WINDOW)]


def stacks(seconds: float) -> list[Line]:
    frames = Frames(STACKS.id, {"0": [["schedule", "/srv/vllm/engine.py", 10]]})
    return [
        STACKS,
        frames,
        Spans(STACKS.id, (0.0, seconds), [210], [0.0], [seconds], [0]),
        Watermark(STACKS.id, seconds),
    ]


def engine(timeline: Timeline) -> Lane:
    [lane] = [lane for lane in Rack().lanes(timeline, {}) if lane.digit == 7]
    return lane


def text(drawn: Drawn) -> list[str]:
    return ["".join(character for character, _ in row) for row in drawn.cells]


def values(drawn: Drawn) -> list[str]:
    return ["".join(part for part, _ in value) for value in drawn.values]


def test_below_the_activity_stand_the_shares_of_the_same_thread() -> None:
    timeline = told(*stacks(2.0), *booked([(0.5, 0.25)] * 4 + [(0.0, 0.0)] * 4))
    drawn = engine(timeline).draw(scene_of(timeline, view=columns_of(0.5, 4)), 5)
    assert text(drawn)[1:] == ["····", "⣿⣿··", "██··", "██__"]
    assert values(drawn)[1:3] == ["   0 % cpu", "   0 % wait"]


def test_one_row_is_the_activity_alone_and_two_tell_the_shares_in_one() -> None:
    timeline = told(*stacks(2.0), *booked([(0.5, 0.25)] * 8))
    scene = scene_of(timeline, view=columns_of(0.5, 4))
    one, two = engine(timeline).draw(scene, 1), engine(timeline).draw(scene, 2)
    assert text(one) == text(two)[:1]
    assert text(two)[1] == "▄▄▄▄"
    assert values(two)[1] == " 50%cpu 25%wait"


def test_the_label_says_which_thread() -> None:
    timeline = told(*stacks(2.0), *booked([(0.5, 0.25)] * 8))
    scene, lane = scene_of(timeline, layout.widths(120).cells), engine(timeline)
    rows = ["".join(c for c, _ in row) for row in picture_rows(scene, ((lane, 2),), layout.widths(120))]
    assert [row[:12].strip() for row in rows[:2]] == ["engine", "MainThread"]
    assert "engine Main" in "".join(c for c, _ in picture_rows(scene, ((lane, 1),), layout.widths(120))[0])


def test_a_thread_without_stacks_has_its_shares_too() -> None:
    timeline = told(*booked([(0.75, 0.0)] * 4 + [(0.0, 0.75)] * 4))
    drawn = engine(timeline).draw(scene_of(timeline, view=columns_of(0.5, 4)), 2)
    assert text(drawn) == ["rrqq", "▆▆⣶⣶"]


def test_no_share_is_drawn_across_a_hole() -> None:
    timeline = told(*booked([(0.75, 0.0)] * 2 + [None] * 4 + [(0.75, 0.0)] * 2))
    timeline.apply(Hole(PROC.id, 0.5, 1.5, "late"))
    drawn = engine(timeline).draw(scene_of(timeline, view=columns_of(0.5, 4)), 3)
    assert [row[1:3] for row in text(drawn)[1:]] == ["░░", "░░"]


def test_a_hole_narrower_than_a_column_is_still_seen_in_the_shares() -> None:
    timeline = told(*booked([(1.0, 0.0)] * 3 + [None] + [(1.0, 0.0)] * 4))
    timeline.apply(Hole(PROC.id, 0.75, 1.0, "late"))
    drawn = engine(timeline).draw(scene_of(timeline, view=columns_of(1.0, 2)), 3)
    assert text(drawn)[1:] == ["░█", "██"]


def test_one_window_without_a_core_is_seen_in_a_column_of_several() -> None:
    steady = told(*booked([(0.75, 0.0)] * 8))
    once = told(*booked([(0.75, 0.0)] * 3 + [(0.0, 0.0)] + [(0.75, 0.0)] * 4))
    for height in (2, 3, 4):
        for timeline, seen in ((steady, False), (once, True)):
            drawn = engine(timeline).draw(scene_of(timeline, view=columns_of(1.0, 2)), height)
            shares = drawn.cells[1:]
            assert any(row[0][1].dim and row[0][0] != "·" for row in shares) == seen
            assert not any(row[1][1].dim and row[1][0] != "·" for row in shares)


def test_under_the_cursor_stand_the_shares_of_that_instant() -> None:
    timeline = told(*stacks(2.0), *booked([(0.5, 0.25)] * 4 + [(0.0, 1.0)] * 4))
    scene = replace(scene_of(timeline, view=columns_of(0.5, 4)), cursor=0.6)
    assert values(engine(timeline).draw(scene, 3)) == [" other", "  50 % cpu", "  25 % wait"]


def test_a_thread_whose_run_states_nobody_tells_has_one_row() -> None:
    timeline = told(*stacks(2.0), Tick(2.0))
    kinds = [
        (lane.key, lane.digit) for lane in (engine(timeline), engine(told(*stacks(2.0), *booked([(1.0, 0.0)] * 8))))
    ]
    assert layout.share(20, kinds, False) == [1, 2]


def test_shares_in_ascii_are_ascii() -> None:
    timeline = told(*stacks(2.0), *booked([(0.5, 0.25)] * 8))
    drawn = engine(timeline).draw(replace(scene_of(timeline, view=columns_of(0.5, 4)), glyphs=ASCII), 5)
    assert all(row.isascii() for row in text(drawn))
    assert len(set("".join(text(drawn)[1:]))) == 3
