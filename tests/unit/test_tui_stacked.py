"""Two shares in one lane: each keeps its height, the texture tells them apart, nothing missing is drawn as a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Hole, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Columns, Cover
from gaptop.tui.cells import Row
from gaptop.tui.glyphs import ASCII, BLOCK, UNICODE, Glyphs
from gaptop.tui.lanes.lane import Drawn, Lane
from gaptop.tui.lanes.rack import Rack
from gaptop.tui.lanes.stack_bars import Look, stack_rows
from gaptop.tui.palette import ORANGE, SKY, VERMILLION
from tests.snapshots.scenes import SERVER, columns_of, scene_of, told

D, H, P, N = Cover.DATA, Cover.HOLE, Cover.PENDING, Cover.NOTHING
QUEUE = Look(SKY, ORANGE)
SHARES = Look(SKY, VERMILLION, any_above=False)


def columns(mean: Sequence[float], low: Sequence[float] | None = None, cover: Sequence[int] | None = None) -> Columns:
    state = np.array(cover if cover is not None else [D] * len(mean), dtype=np.uint8)
    blank = np.where(state == D, 1.0, np.nan)
    means = np.array(mean, dtype=float) * blank
    lows = np.array(low if low is not None else mean, dtype=float) * blank
    return Columns(0.0, float(len(mean)), means, lows, means, state)


def text(rows: list[Row]) -> list[str]:
    return ["".join(character for character, _ in row) for row in rows]


def test_what_waits_stands_on_what_runs_and_both_keep_their_heights() -> None:
    running, waiting = columns([16, 16, 8, 1]), columns([0, 1, 4, 32])
    assert text(stack_rows(running, waiting, 32.0, 2, QUEUE, UNICODE)) == [" ⣀⣀⣿", "██▄▁"]


def test_without_colours_and_in_ascii_the_texture_tells_them_apart() -> None:
    running, waiting = columns([16, 16]), columns([4, 16])
    assert text(stack_rows(running, waiting, 32.0, 2, QUEUE, ASCII)) == ["oO", "##"]
    assert text(stack_rows(running, waiting, 32.0, 2, QUEUE, BLOCK)) == ["▒▒", "██"]


def test_where_nothing_runs_all_that_waits_stands_on_the_ground() -> None:
    assert text(stack_rows(columns([0, 0]), columns([16, 0]), 32.0, 2, QUEUE, UNICODE)) == ["  ", "⣿_"]


def test_one_that_waits_above_a_full_lane_still_has_a_cell() -> None:
    assert text(stack_rows(columns([31]), columns([1]), 32.0, 2, QUEUE, UNICODE)) == ["⣿", "█"]


def test_in_a_single_row_whoever_waits_is_told() -> None:
    assert text(stack_rows(columns([16, 16, 0]), columns([0, 1, 0]), 32.0, 1, QUEUE, UNICODE)) == ["▄⣶_"]


def test_in_a_single_row_the_larger_share_of_a_thread_is_told() -> None:
    ran, waited = columns([0.6, 0.2]), columns([0.2, 0.6])
    assert text(stack_rows(ran, waited, 1.0, 1, SHARES, UNICODE)) == ["▅⣿"]


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_one_zero_among_ones_is_seen_in_either_share_at_every_height(height: int) -> None:
    clean = stack_rows(columns([9]), columns([9]), 20.0, height, QUEUE, UNICODE)
    empty = stack_rows(columns([9], [0]), columns([9]), 20.0, height, QUEUE, UNICODE)
    none_waited = stack_rows(columns([9]), columns([9], [0]), 20.0, height, QUEUE, UNICODE)
    assert clean != empty
    assert clean != none_waited
    assert not any(style.dim for [(_, style)] in clean)
    assert any(style.dim for [(_, style)] in empty)
    assert any(style.dim and character in UNICODE.texture for [(character, style)] in none_waited)


def test_the_rest_is_told_by_dots_and_not_left_blank() -> None:
    ran, waited = columns([0.25, 1.0, 0.0]), columns([0.25, 0.0, 0.0])
    rows = stack_rows(ran, waited, 1.0, 4, SHARES, UNICODE, np.array([0.5, 0.0, 0.0]))
    assert text(rows) == ["·█ ", "·█ ", "⣿█ ", "██_"]


@pytest.mark.parametrize(
    ("first", "second", "drawn"),
    [(H, D, "░"), (D, H, "░"), (D, P, "/"), (N, N, " "), (P, H, "/")],
)
def test_a_missing_half_is_never_drawn_as_none(first: int, second: int, drawn: str) -> None:
    lower, upper = columns([8], cover=[first]), columns([8], cover=[second])
    assert text(stack_rows(lower, upper, 32.0, 3, QUEUE, UNICODE)) == [drawn] * 3


def test_a_half_that_never_was_there_leaves_the_other_alone() -> None:
    assert text(stack_rows(columns([16]), columns([0], cover=[N]), 32.0, 2, QUEUE, UNICODE)) == [" ", "█"]


_values = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1), st.floats(0, 1), st.sampled_from([D, H, P, N])),
    min_size=1,
    max_size=12,
)


@given(_values, st.integers(1, 9), st.sampled_from([UNICODE, BLOCK, ASCII]), st.booleans())
@example([(2.0, 1.0, 0.0, 0.0, D)], 2, UNICODE, True)
def test_cells_fill_the_lane_and_no_number_hides_or_is_made_up(
    values: list[tuple[float, float, float, float, Cover]], height: int, glyphs: Glyphs, queue: bool
) -> None:
    look = QUEUE if queue else SHARES
    cover = [state for *_, state in values]
    lower = columns([a for a, *_ in values], [a * share for a, _, share, _, _ in values], cover)
    upper = columns([b for _, b, *_ in values], [b * share for _, b, _, share, _ in values])
    top = max(1.0, *(a + b for a, b, *_ in values))
    rows = stack_rows(lower, upper, top, height, look, glyphs)
    assert len(rows) == height
    assert all(len(row) == len(values) for row in rows)
    for index, (below, above, _, _, state) in enumerate(values):
        cells = [row[index][0] for row in rows]
        if state in (H, P):
            assert set(cells) == {glyphs.hole if state == H else glyphs.pending}
            continue
        assert cells[-1] != " "
        textured = [character for character in cells if character in glyphs.texture]
        solid = [character for character in cells if character in glyphs.bars]
        if above == 0:
            assert not textured
        if queue and above > 0:
            assert textured
        if state == D and below > 0 and height > 1:
            assert solid
        if state == N or below == 0:
            assert not solid
        assert not (state == D and below == above == 0) or cells[-1] == glyphs.zero


def queue_of(timeline: Timeline) -> Lane:
    [lane] = [lane for lane in Rack().lanes(timeline, {}) if lane.digit == 3]
    return lane


def values(drawn: Drawn) -> list[str]:
    return ["".join(part for part, _ in value) for value in drawn.values]


def served(running: Sequence[float | None], waiting: Sequence[float | None], step: float = 0.5) -> Timeline:
    server = replace(SERVER, signals=("sched.running", "sched.waiting"))
    times = [round((index + 1) * step, 6) for index in range(len(running))]
    batches = [
        Batch(server.id, [t], {"sched.running": [run], "sched.waiting": [wait]})
        for t, run, wait in zip(times, running, waiting, strict=True)
    ]
    return told(server, *batches, Watermark(server.id, times[-1]), Tick(times[-1]))


def test_the_queue_lane_tells_both_numbers() -> None:
    timeline = served([16.0] * 6, [0.0, 0.0, 4.0, 4.0, 4.0, 4.0])
    scene = scene_of(timeline, view=columns_of(0.5, 6))
    drawn = queue_of(timeline).draw(scene, 3)
    assert drawn.label == "queue"
    assert text(drawn.cells) == [" ▃▃⣿⣿⣿", " █████", " █████"]
    assert values(drawn) == ["  16 run", "   4 wait", ""]
    assert values(queue_of(timeline).draw(scene, 1)) == ["  16+4 wait"]
    under = queue_of(timeline).draw(replace(scene, cursor=1.2), 2)
    assert values(under) == ["  16 run", "   0 wait"]


def test_a_declared_hole_is_hatched_through_both() -> None:
    timeline = served([16.0, 16.0, None, None, None, None, 16.0, 16.0], [4.0, 4.0, None, None, None, None, 4.0, 4.0])
    timeline.apply(Hole(SERVER.id, 1.0, 3.0, "no answer"))
    rows = text(queue_of(timeline).draw(scene_of(timeline, view=columns_of(0.5, 8)), 2).cells)
    assert [row[2:6] for row in rows] == ["░░░░", "░░░░"]


def test_a_hole_narrower_than_a_column_is_still_seen() -> None:
    timeline = served([16.0] * 20, [16.0] * 20)
    timeline.apply(Hole(SERVER.id, 6.0, 6.5, "no answer"))
    rows = text(queue_of(timeline).draw(scene_of(timeline, view=columns_of(5.0, 2)), 2).cells)
    assert [row[1] for row in rows][0] == "░"
    assert rows[0][0] != "░"


def test_a_server_that_tells_no_waiting_has_a_lane_of_what_runs() -> None:
    server = replace(SERVER, signals=("sched.running",))
    timeline = told(server, Batch(server.id, [1.0], {"sched.running": [3.0]}), Watermark(server.id, 1.0), Tick(1.0))
    drawn = queue_of(timeline).draw(scene_of(timeline), 2)
    assert drawn.label == "running"
    assert values(drawn)[0] == "   3 run"
