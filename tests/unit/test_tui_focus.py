"""Several servers or devices: each can be looked at by itself, and everything again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Batch, Line, Source, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui.focus import Part, focuses, next_focus, told_of
from gaptop.valleys.model import Assessment
from tests.screenshots.canned import METRICS, stream
from tests.snapshots.fleets import fleet_app
from tests.unit.test_tui_listing import VALLEYS
from tests.unit.test_tui_screen import running

SECOND = "metrics/http://127.0.0.1:8001"


def two_servers() -> list[Line]:
    lines: list[Line] = []
    for line in stream(20.0):
        lines.append(line)
        if isinstance(line, Source) and line.id == METRICS:
            entity = dict(line.entity) | {"url": "http://127.0.0.1:8001", "pids": [900], "model": "other/small"}
            lines.append(replace(line, id=SECOND, entity=entity))
        elif isinstance(line, Batch) and line.src == METRICS:
            lines.append(Batch(SECOND, line.t, {"sched.running": [3] * len(line.t)}))
        elif isinstance(line, Watermark) and line.src == METRICS:
            lines.append(replace(line, src=SECOND))
    return lines


def test_one_server_on_one_device_has_no_parts() -> None:
    timeline = Timeline()
    for line in stream(5.0):
        timeline.apply(line)
    assert focuses(timeline) == ()


def test_a_part_tells_its_own_sources_and_the_whole_stays_whole() -> None:
    timeline = Timeline()
    for line in two_servers():
        timeline.apply(line)
    found = {focus.label: focus for focus in focuses(timeline)}
    assert set(found) == {"127.0.0.1:8000", "127.0.0.1:8001"}
    part = Part(timeline, found["127.0.0.1:8001"].sources)
    assert [one.source for one in part.ids("sched.running")] == [SECOND]
    assert part.ids("tokens.decode") == ()
    assert {one.source for one in timeline.ids("sched.running")} == {METRICS, SECOND}
    assert part.steps(part.ids("sched.running")[0], 0.0, 20.0).value.max() == 3


def test_stepping_goes_around_through_everything() -> None:
    timeline = Timeline()
    for line in two_servers():
        timeline.apply(line)
    found = focuses(timeline)
    seen, now = [], None
    for _ in range(len(found) + 1):
        now = next_focus(found, now, 1)
        seen.append(now)
    assert seen == [*found, None]
    assert next_focus(found, None, -1) == found[-1]


def test_of_another_device_no_valley_and_no_row_is_told() -> None:
    timeline = Timeline()
    for line in two_servers():
        timeline.apply(line)
    said = Assessment(60.0, VALLEYS)
    for focus in focuses(timeline):
        for valley in told_of(said, focus).valleys:
            assert not valley.devices or focus.devices & set(valley.devices)


async def test_tab_looks_at_each_server_in_turn() -> None:
    async with running(two_servers()) as screen:
        assert "[all]" in screen.rows[2]
        await screen.press("tab", "tab")
        assert "[127.0.0.1:8001]" in screen.rows[2]
        assert "small" in screen.rows[0]
        run = next(row for row in screen.rows if row[1:].startswith("running"))
        assert run.rstrip().endswith("3 run")
        await screen.press("tab")
        assert "[all]" in screen.rows[2]
        await screen.press("shift+tab")
        assert "[127.0.0.1:8001]" in screen.rows[2]


async def test_tab_says_so_where_there_is_nothing_to_choose() -> None:
    async with running() as screen:
        await screen.press("tab")
        assert "one server and one device" in screen.rows[-1]


@pytest.mark.parametrize("name", ["two", "eight", "mig"])
async def test_each_of_several_devices_can_be_looked_at(name: str) -> None:
    app = fleet_app(name)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.2)
        await pilot.press("tab")
        rows = ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]
        assert rows[2].count("[") == 1
        assert sum("┤" in row and row[1:2] == "#" for row in rows) <= 1
