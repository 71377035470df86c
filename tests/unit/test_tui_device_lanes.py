"""The lanes of devices: none vanishes, none is averaged away, a hole is seen at every zoom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gaptop.recording.lines import Batch, Event, Hole, Line, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui import layout
from gaptop.tui.glyphs import ASCII
from gaptop.tui.lanes.choice import Choice
from gaptop.tui.lanes.devices import DeviceLane
from gaptop.tui.lanes.picture import picture_rows
from gaptop.tui.lanes.rack import Rack
from gaptop.tui.scene import Scene
from gaptop.valleys.model import Assessment, LedgerRow
from tests.snapshots.fleets import FLEETS, NO_MIG, fleet, gpu
from tests.snapshots.scenes import SERVER, columns_of, readings, scene_of, told


def lanes_of(timeline: Timeline) -> dict[str, Any]:
    return {lane.draw(scene_of(timeline), 1).label: lane for lane in Rack().lanes(timeline, {})}


def row(lane: Any, scene: Scene, height: int = 1) -> str:
    return "".join(character for character, _ in lane.draw(scene, height).cells[0])


def test_a_single_device_has_one_lane_called_busy() -> None:
    timeline = told(gpu(0), *readings(gpu(0), [1.0] * 10), Tick(2.0))
    keys = [lane.key for lane in Rack().lanes(timeline, {})]
    assert keys.count("busy") == 1
    assert "device" not in keys
    assert "busy" in lanes_of(timeline)


def test_of_several_devices_the_mean_comes_first_and_a_missing_one_is_not_averaged_away() -> None:
    one, other = FLEETS["two"]
    half = [1.0] * 10, [0.5] * 5
    timeline = told(one, other, *readings(one, half[0]), *readings(other, half[1]))
    timeline.apply(Hole(other.id, 1.0, 2.0, "lost"))
    timeline.apply(Watermark(other.id, 2.0))
    timeline.apply(Tick(2.0))
    lanes = Rack().lanes(timeline, {})
    assert [lane.key for lane in lanes[:1]] == ["busy"]
    scene = scene_of(timeline, view=columns_of(0.2, 10))  # ten columns of 0.2 s
    drawn = lanes[0].draw(scene, 1)
    assert drawn.label == "mean of 2"
    assert row(lanes[0], scene) == "▆▆▆▆▆░░░░░"
    assert "1/2 missing" in drawn.values[0][0][0]


def test_a_device_that_never_told_anything_is_missing_in_the_mean() -> None:
    one, other = FLEETS["two"]
    timeline = told(one, other, *readings(one, [1.0] * 10), Watermark(other.id, 2.0), Tick(2.0))
    lane = Rack().lanes(timeline, {})[0]
    scene = scene_of(timeline, view=columns_of(0.2, 10))
    assert row(lane, scene) == "░" * 10
    assert "1/2 missing" in lane.draw(scene, 1).values[0][0][0]


def test_one_idle_device_leaves_a_mark_in_the_mean() -> None:
    sources = FLEETS["eight"]
    lines: list[Line] = [*sources]
    for number, source in enumerate(sources):
        lines += readings(source, [1.0] * 4 + [0.0 if number == 3 else 1.0] + [1.0] * 5)
    timeline = told(*lines, Tick(2.0))
    rows = Rack().lanes(timeline, {})[0].draw(scene_of(timeline, view=columns_of(0.2, 10)), 3).cells
    assert [row[4][0] for row in rows] == ["▅", "█", "_"]
    assert rows[1][4][1].dim
    assert not rows[1][3][1].dim


def test_a_device_without_utilisation_says_why_and_is_neither_empty_nor_zero() -> None:
    timeline = told(SERVER, *FLEETS["mig"], Tick(1.0))
    lane = lanes_of(timeline)["#0 H100"]
    drawn = lane.draw(scene_of(timeline, 120), 1)
    assert f"N/A: {NO_MIG}" in row(lane, scene_of(timeline, 120))
    assert drawn.values[0][0][0].strip() == "N/A"
    alone = told(SERVER, *FLEETS["unsupported"], Tick(1.0))
    assert f"N/A: {NO_MIG}" in row(lanes_of(alone)["busy"], scene_of(alone, 120))


def test_the_mean_is_over_slices_and_not_over_their_parent() -> None:
    timeline = told(SERVER, *FLEETS["mig"], Tick(1.0))
    assert Rack().lanes(timeline, {})[0].draw(scene_of(timeline), 1).label == "mean of 3"


def test_the_servers_device_among_others_has_the_first_lane() -> None:
    others = [gpu(index, entity={"pids": []}) for index in (0, 1, 3)]
    timeline = told(SERVER, *others, gpu(2), Tick(1.0))
    lanes = [lane for lane in Rack().lanes(timeline, {}) if lane.digit == 1]
    assert lanes[0].draw(scene_of(timeline), 1).label == "#2 H100"
    assert [lane.device.index for lane in lanes if isinstance(lane, DeviceLane)] == [0, 1, 3]


def test_power_of_a_device_seen_twice_counts_once() -> None:
    exporter = replace(gpu(0), id="dcgm/GPU-0", collector="devices.dcgm")
    lines: list[Line] = [exporter, gpu(0), gpu(1)]
    lines += [Batch(each, [1.0], {"device.power": [300.0]}) for each in ("dcgm/GPU-0", "nvml/GPU-0", "nvml/GPU-1")]
    timeline = told(*lines, Tick(1.0))
    drawn = lanes_of(timeline)["power sum"].draw(scene_of(timeline), 1)
    assert drawn.values[0][0][0].strip() == "600"


def test_gpm_has_a_lane_of_its_own_where_there_is_room() -> None:
    timeline = told(*fleet("gpm", 10.0))
    scene = scene_of(timeline)
    lanes = Rack().lanes(timeline, {})
    for rows, kinds in ((10, set()), (21, {"sm"}), (40, {"sm", "dram", "tensor"})):
        shown = {lane.key for lane, _ in Choice().share(scene, lanes, rows, rows >= 40)}
        assert shown & {"sm", "dram", "tensor"} == kinds
        assert "busy" in shown


@pytest.mark.parametrize(("rows", "single"), [(10, 2), (15, 4), (21, 8), (40, 8)])
def test_many_devices_leave_room_for_the_queue_and_the_threads(rows: int, single: int) -> None:
    timeline = told(*fleet("eight", 10.0))
    shown = Choice().share(scene_of(timeline), Rack().lanes(timeline, {}), rows, rows >= 40)
    keys = [lane.key for lane, _ in shown]
    assert sum(height for _, height in shown) <= rows
    assert keys.count("device") == single
    assert {"busy", "queue", "tokens", "engine", "valleys"} <= set(keys)


def test_the_telling_devices_are_those_of_the_valley_and_the_idlest_in_the_order_of_the_screen() -> None:
    timeline = told(*fleet("eight", 10.0))
    busy = {f"GPU-{index}": 0.9 for index in range(8)} | {"GPU-6": 0.5, "GPU-4": 0.7}
    ledger = tuple(LedgerRow(key, "busy", 0, 9.0, None, share) for key, share in busy.items())
    scene = scene_of(timeline, said=Assessment(timeline.now, ledger=ledger))
    choice = Choice()
    shown = choice.share(scene, Rack().lanes(timeline, {}), 10, False)
    assert [lane.device.index for lane, _ in shown if isinstance(lane, DeviceLane)] == [4, 6]
    assert (choice.shown.left_out, choice.shown.devices) == (6, 8)


def test_the_first_key_brings_all_devices_then_none_then_the_usual() -> None:
    timeline = told(*fleet("eight", 10.0))
    scene, lanes, choice = scene_of(timeline), Rack().lanes(timeline, {}), Choice()
    counts = []
    for _ in range(4):
        shown = choice.share(scene, lanes, 10, False)
        counts.append((sum(lane.key == "device" for lane, _ in shown), any(lane.key == "busy" for lane, _ in shown)))
        choice.toggle(1)
    assert counts == [(2, True), (8, True), (0, False), (2, True)]


def test_lanes_without_several_devices_fold_and_come_back_by_one_press_each() -> None:
    timeline = told(*fleet("unmapped", 10.0))
    scene, lanes, choice = scene_of(timeline), Rack().lanes(timeline, {}), Choice()
    shown = []
    for _ in range(3):
        shown.append(any(lane.key == "busy" for lane, _ in choice.share(scene, lanes, 21, False)))
        choice.toggle(1)
    assert shown == [True, False, True]


def test_rows_are_never_overdrawn_by_devices() -> None:
    for height in range(layout.SMALLEST[1], 80):
        lanes = [("busy", 1), ("sm", 1), *[("device", 1)] * 20, ("no device", 1), ("power", 2), ("valleys", 9)]
        for wanted in (frozenset[int](), frozenset({1})):
            rows = layout.split(height).lanes
            assert sum(layout.share(rows, lanes, height >= layout.TALL, wanted)) <= rows


def test_a_hole_narrower_than_a_column_is_still_seen() -> None:
    source = gpu(0)
    lines: list[Line] = [source]
    for index in range(1, 101):
        t = round(index * 0.2, 6)
        if not 9.0 < t < 9.6:
            lines.append(Batch(source.id, [t], {"device.busy": [1.0], "device.power": [300.0]}))
    timeline = told(*lines, Hole(source.id, 9.0, 9.4, "late"), Watermark(source.id, 20.0), Tick(20.0))
    lanes = {lane.key: lane for lane in Rack().lanes(timeline, {})}
    scene = scene_of(timeline, view=columns_of(5.0, 4))
    rows = ["".join(character for character, _ in cells) for cells in lanes["busy"].draw(scene, 2).cells]
    assert rows == ["█░██", "████"]
    assert "░" in row(lanes["power"], scene, 2) + "".join(c for c, _ in lanes["power"].draw(scene, 2).cells[1])
    whole = scene_of(timeline, view=columns_of(0.2, 10, 45))
    assert row(lanes["busy"], whole) == "░░████████"


def test_our_own_slow_call_and_an_error_of_the_driver_are_marked_on_the_strip() -> None:
    events = [
        Event(2.0, "our_slow_call", "a call took 60 ms", "nvml/GPU-0"),
        Event(5.0, "xid", "Xid 79", "nvml/GPU-0"),
        Event(7.0, "command", "the screen asked for more"),
    ]
    timeline = told(gpu(0), *events, Tick(10.0))
    lane = Rack().lanes(timeline, {})[-1]
    scene = scene_of(timeline, view=columns_of(1.0, 10))
    marks = row(lane, scene)
    assert [column for column, mark in enumerate(marks) if mark == "!"] == [2, 5]
    later = scene_of(timeline, view=columns_of(1.0, 5))
    assert row(lane, later).count("!") == 1


def test_untrusted_device_names_stay_text() -> None:
    source = gpu(0, "[red]\x1b[2J" + "n" * 300, entity={"slice": "\x1b]0;x\x07", "parent": "p"})
    timeline = told(SERVER, source, gpu(1), Tick(1.0))
    widths = layout.widths(100)
    scene = replace(scene_of(timeline, widths.cells), glyphs=ASCII)
    lanes = tuple((lane, 1) for lane in Rack().lanes(timeline, {}) if lane.present(scene))
    for cells in picture_rows(scene, lanes, widths):
        assert "\x1b" not in "".join(character for character, _ in cells)
        assert sum(1 for _ in cells) == 100
