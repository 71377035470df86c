"""Marks of what happened, and lanes that are enlarged or moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Line, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Columns, SeriesId
from gaptop.tui import layout
from gaptop.tui.keys import NAMES
from gaptop.tui.lanes.choice import Choice
from gaptop.tui.lanes.moved import Moved
from tests.snapshots.scenes import SERVER, columns_of, scene_of
from tests.unit.test_tui_screen import running

COUNTER: Final = SeriesId(SERVER.id, "sched.preemptions")


def row(rows: list[str], name: str) -> str:
    return next(text for text in rows if text[1:].startswith(name))


async def test_preemptions_and_compiling_are_marked_where_they_happened() -> None:
    async with running(size=(120, 50)) as screen:
        marks = row(screen.rows, "marks")
        strip = row(screen.rows, "valleys")
        assert "p" in marks
        # The counter is read twice a second: the first rise is seen over the reading in which it came.
        pressure = range(strip.index("K═") - 1, strip.rindex("═K") + 3)
        assert {index for index, letter in enumerate(marks[15:105], 15) if letter == "p"} <= set(pressure)


async def test_under_the_cursor_the_mark_is_told_in_words() -> None:
    async with running(size=(120, 50)) as screen:
        await screen.press("g", *"14:02:55", "enter")
        assert "preemption" in row(screen.rows, "marks")


@pytest.mark.parametrize(("key", "says"), [("e", "Enlarge (again: as usual):"), ("m", "Move to the top:")])
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_every_choice_of_a_question_can_be_read(key: str, says: str, size: tuple[int, int]) -> None:
    async with running(size=size) as screen:
        await screen.press(key)
        asked = "\n".join(screen.rows[-3:])
        assert says in asked
        assert [f"{digit} {name}" for digit, name in NAMES if f" {digit} {name}" not in asked] == []
        await screen.pilot.resize_terminal(200, 60)
        await screen.until(f"{says}  1 devices")
        assert "9 valleys" in screen.rows[-1]


async def test_e_and_a_digit_enlarge_a_lane_and_escape_brings_the_others_back() -> None:
    async with running() as screen:
        before = screen.rows
        await screen.press("e", "4")
        decode = next(i for i, text in enumerate(screen.rows) if text[1:].startswith("decode"))
        assert screen.rows[decode + 8][:10].strip() == ""
        await screen.press("escape")
        assert screen.rows == before


async def test_another_key_than_a_digit_leaves_everything_as_it_was() -> None:
    async with running() as screen:
        before = screen.rows
        await screen.press("e", "z")
        assert screen.rows == before
        await screen.press("m", "escape")
        assert screen.rows == before


async def test_m_and_a_digit_put_a_lane_on_top() -> None:
    async with running() as screen:
        await screen.press("m", "6")
        assert screen.rows[3][1:].startswith("KV used")


@pytest.mark.parametrize("rows", range(1, 60))
def test_an_enlarged_lane_never_takes_more_rows_than_there_are(rows: int) -> None:
    lanes = [("busy", 1), ("queue", 3), ("tokens", 4), ("kv", 6), ("valleys", 9)]
    for digit in (1, 3, 4, 6, 9):
        heights = layout.share(rows, lanes, False, frozenset({digit}), digit)
        assert sum(heights) <= rows
        assert heights[0] or rows < 2


def test_lifting_twice_keeps_the_one_lifted_first_second() -> None:
    choice = Choice()
    choice.lift(6)
    choice.lift(4)
    assert sorted(choice._rank, key=choice._rank.__getitem__)[:2] == [4, 6]


def _counter(values: list[float], step: float = 0.5) -> Iterator[Line]:
    yield SERVER
    for index, value in enumerate(values, 1):
        yield Batch(SERVER.id, [index * step], {"sched.preemptions": [value]})
        yield Watermark(SERVER.id, index * step)
        yield Tick(index * step)


@given(
    rises=st.lists(st.sampled_from([0, 0, 0, 1, 5, -20]), min_size=4, max_size=60),
    looks=st.lists(st.sampled_from(["follow", "back", "on", "in", "out"]), min_size=4, max_size=60),
)
@example(rises=[*[0] * 8, 5, 0, 0], looks=[*["follow"] * 9, "back", "on"])
def test_remembered_looks_find_what_a_fresh_look_finds(rises: list[int], looks: list[str]) -> None:
    values = [max(0.0, float(total)) for total in accumulate(rises)]
    timeline, moved, view = Timeline(None), Moved(), columns_of(0.2, 20)
    steps = iter(looks)
    for line in _counter(values):
        timeline.apply(line)
        if not isinstance(line, Tick):
            continue
        look = next(steps, "follow")
        if look == "follow":
            view = view.follow(timeline.now)
        elif look in ("in", "out"):
            view = view.zoom(1 if look == "in" else -1, timeline.now, timeline.now)
        else:
            view = view.pan(-7 if look == "back" else 7, timeline.now)
        scene = scene_of(timeline, view=view)
        assert moved.columns(scene, COUNTER, 0.0) == Moved().columns(scene, COUNTER, 0.0)


def test_a_counter_that_stands_still_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline, moved, reads = Timeline(None), Moved(), list[SeriesId]()
    ask = timeline.columns

    def noted(one: SeriesId, start: float, end: float, n: int) -> Columns:
        reads.append(one)
        return ask(one, start, end, n)

    monkeypatch.setattr(timeline, "columns", noted)
    for line in _counter([0.0, 0.0, 3.0, *([3.0] * 40)]):
        timeline.apply(line)
        if isinstance(line, Tick):
            moved.columns(scene_of(timeline, view=columns_of(0.2, 20).follow(timeline.now)), COUNTER, 0.0)
    assert len(reads) == 2
