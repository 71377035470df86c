"""Several servers or devices: each can be looked at by itself, and everything again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Batch, Event, Health, Line, Source, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui.focus import Part, focuses, healths_shown, marks, next_focus, told_of
from gaptop.tui.lower import Lower
from gaptop.tui.panels.tabs import tabs
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
    part = Part(timeline, found["127.0.0.1:8001"])
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
        for valley in told_of(said, focus, Part(timeline, focus)).valleys:
            assert not valley.devices or focus.devices & set(valley.devices)


FIRST = "metrics/http://127.0.0.1:8000"
THIRD = "metrics/http://127.0.0.1:8002"
GONE = "Nothing listens at http://127.0.0.1:8001."


def three_servers() -> list[Line]:
    """The second one answered and does not now, the third one has never answered; the first one goes on."""
    lines: list[Line] = []
    for line in two_servers():
        lines.append(line)
        if isinstance(line, Source) and line.id == SECOND:
            entity = {"url": "http://127.0.0.1:8002", "engine": "unknown", "pids": []}
            lines.append(replace(line, id=THIRD, entity=entity, signals=()))
    for id, name in ((SECOND, "engines.vllm"), (THIRD, "engines.unknown")):
        lines.append(Health(19.5, id, f"{name}:{id[15:]}", "absent", says=GONE))
    absent = "host.process:127.0.0.1:8002"
    lines.append(Health(19.5, absent, absent, "absent", says="No process of http://127.0.0.1:8002 is seen."))
    lines.append(Event(19.0, "server_restarted", "The second server was started again.", SECOND))
    lines.append(Event(19.1, "our_slow_call", "It was slow.", None, {"collector": "engines.vllm:127.0.0.1:8001"}))
    return lines


def known(lines: list[Line]) -> Timeline:
    timeline = Timeline()
    for line in lines:
        timeline.apply(line)
    return timeline


def test_servers_that_do_not_answer_are_marked_by_what_they_were_before() -> None:
    timeline = known(three_servers())
    assert marks(timeline, focuses(timeline), timeline.health) == {
        "127.0.0.1:8001": "lost",
        "127.0.0.1:8002": "waiting",
    }


def test_what_is_wrong_with_one_server_is_told_of_it_alone() -> None:
    timeline = known(three_servers())
    found = {focus.label: focus for focus in focuses(timeline)}
    first, second, third = (Part(timeline, found[f"127.0.0.1:800{number}"]) for number in range(3))
    assert FIRST in first.health
    assert not {SECOND, THIRD, "host.process:127.0.0.1:8002"} & first.health.keys()
    assert {THIRD, "host.process:127.0.0.1:8002"} <= third.health.keys()
    told = {event.what for event in second.events}
    assert {"server_restarted", "our_slow_call"} <= told
    assert not {"server_restarted", "our_slow_call"} & {event.what for event in first.events}
    said = Assessment(20.0, sentence="the whole", hints=("of all",))
    assert told_of(said, found["127.0.0.1:8001"], second).sentence.endswith(GONE)
    whole = told_of(said, found["127.0.0.1:8000"], first)
    assert GONE not in " ".join((whole.sentence, *whole.hints))


def test_everything_is_not_lost_while_one_server_answers() -> None:
    timeline = known(three_servers())
    shown = healths_shown(timeline, timeline.health, None)
    assert FIRST in shown
    assert not {SECOND, THIRD, "host.process:127.0.0.1:8002"} & shown.keys()
    timeline.apply(Health(19.9, FIRST, "engines.vllm:127.0.0.1:8000", "failing", says="it too"))
    assert {FIRST, SECOND, THIRD} <= healths_shown(timeline, timeline.health, None).keys()


def test_a_standstill_without_a_device_is_told_of_its_own_server_alone() -> None:
    timeline = known(three_servers())
    stall = replace(VALLEYS[0], devices=(), server="http://127.0.0.1:8001")
    said = Assessment(20.0, (stall,))
    told = {focus.label: told_of(said, focus, Part(timeline, focus)).valleys for focus in focuses(timeline)}
    assert told == {"127.0.0.1:8000": (), "127.0.0.1:8001": (stall,), "127.0.0.1:8002": ()}


def test_the_only_device_of_a_server_needs_no_tab_beside_its_servers() -> None:
    lines: list[Line] = []
    for line in two_servers():
        lines.append(line)
        if isinstance(line, Source) and line.kind == "device":
            entity = dict(line.entity) | {"uuid": "GPU-b", "index": 1, "pids": [900]}
            lines.append(replace(line, id="nvml/GPU-b", entity=entity))
    assert [focus.label for focus in focuses(known(lines))] == ["127.0.0.1:8000", "127.0.0.1:8001"]


@pytest.mark.parametrize("room", [40, 60, 76])
async def test_the_shown_tab_is_always_seen_whole(room: int) -> None:
    async with running(three_servers()) as screen:
        scene = screen.app._main.scene()
        timeline = screen.app._session.timeline
        found = focuses(timeline)
        for shown in (None, *found):
            line = tabs(scene, found, shown, {"127.0.0.1:8001": "lost"}, 120, room)
            assert len(line) <= room
            label = shown.label if shown else "all"
            assert f"[{label} lost]" in line if label.endswith("8001") else f"[{label}]" in line


async def test_what_is_said_under_the_picture_is_of_the_part_that_is_shown() -> None:
    async with running(three_servers()) as screen:
        scene = replace(screen.app._main.scene(), valley=None)
        lower = Lower()

        def told(hint: str, *sources: str) -> str:
            part = {id: scene.sources[id] for id in sources}
            said = replace(scene.assessment, hints=(hint,), valleys=())
            return str(lower.lines(replace(scene, sources=part, assessment=said), 100, 9))

        assert "of the first" in told("of the first", FIRST)
        assert "of the second" in told("of the second", SECOND)


async def test_all_names_how_many_servers_there_are() -> None:
    async with running(three_servers()) as screen:
        assert "3 servers" in screen.rows[0]
        assert "127.0.0.1:8001 lost" in screen.rows[2]


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
