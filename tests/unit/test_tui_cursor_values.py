"""Under the cursor: the value, the age of a state that was old then, the bounds of a window, the range of several."""

from __future__ import annotations

from dataclasses import replace

from gaptop.recording.lines import Batch, Hole, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui import layout
from gaptop.tui.lanes.picture import picture_rows
from gaptop.tui.lanes.rack import Rack
from gaptop.tui.view import View
from tests.snapshots.fleets import gpu
from tests.snapshots.scenes import SERVER, columns_of, readings, scene_of, told


def values(timeline: Timeline, digit: int, view: View, cursor: float, height: int = 2) -> list[str]:
    lane = next(lane for lane in Rack().lanes(timeline, {}) if lane.digit == digit)
    drawn = lane.draw(replace(scene_of(timeline, view=view), cursor=cursor), height)
    return ["".join(part for part, _ in value) for value in drawn.values]


def test_a_state_that_was_older_than_two_periods_tells_its_age() -> None:
    lines = [Batch(SERVER.id, [t], {"sched.running": [4.0]}) for t in (1.0, 1.5, 4.0)]
    timeline = told(SERVER, *lines, Watermark(SERVER.id, 4.0), Tick(4.0))
    assert values(timeline, 3, columns_of(0.05, 60, 10), 1.9)[0] == "   4 run"
    assert values(timeline, 3, columns_of(0.05, 60, 10), 2.7)[0] == "   4 run (1.2 s)"
    assert values(timeline, 3, columns_of(0.05, 60, 10), 3.3)[0] == "hole"


def test_a_window_tells_its_bounds_and_several_their_range() -> None:
    timeline = told(gpu(0), *readings(gpu(0), [1.0, 0.5, 0.0, 1.0, 0.75]), Tick(1.0))
    assert values(timeline, 1, columns_of(0.05, 20), 0.33) == ["  50 %", " 0.2–0.4 s"]
    assert values(timeline, 1, columns_of(0.5, 2), 0.7) == ["  70 %", " 0–100 %"]
    assert values(timeline, 1, columns_of(0.05, 20), 0.33, height=1) == ["  50 %"]


def test_an_old_values_age_is_never_cut_and_its_unit_only_where_there_is_no_room() -> None:
    server = replace(SERVER, signals=("tokens.decode",))
    counted = [Batch(server.id, [t], {"tokens.decode": [800.0 * t]}) for t in (0.5, 1.0)]
    gone = [Hole(source.id, 1.0, 13.0, "lost") for source in (gpu(0), server)]
    timeline = told(gpu(0), server, *readings(gpu(0), [0.95] * 5), *counted, *gone, Tick(13.0))
    lanes = {lane.key: lane for lane in Rack().lanes(timeline, {})}
    said = {}
    for width in (80, 120):
        own = layout.widths(width)
        rows = picture_rows(scene_of(timeline, own.cells), [(lanes["busy"], 1), (lanes["tokens"], 1)], own)
        said[width] = ["".join(character for character, _ in row[-own.value :]).rstrip() for row in rows[:2]]
    assert said == {80: [" 95 % (12 s)", " 800 (12 s)"], 120: ["  95 % (12 s)", " 800 (12 s)"]}
