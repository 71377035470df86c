"""What happened stands on the screen in words, near a valley or not; a device that is lost with its remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Event, Health, Line, Source, Tick
from gaptop.tui.cells import Piece
from gaptop.tui.glyphs import ASCII
from gaptop.tui.lanes.valleys import ValleyLane
from gaptop.tui.panels import detail, header, sources
from gaptop.tui.panels.besides import besides
from gaptop.tui.panels.devices import device_facts
from gaptop.tui.scene import Scene, explained
from gaptop.tui.session import Session
from tests.screenshots.canned import CannedFeed
from tests.screenshots.judged import assess
from tests.snapshots.fleets import FLEETS, HAPPENED, fleet, gpu, mig_parent, mig_slice
from tests.snapshots.scenes import SERVER, scene_of, told

SLOW, XID = HAPPENED
GONE = (
    "GPU 0 does not answer any more (GPU is lost), so its lanes have a hole from here: it has fallen off the bus; see "
    "dmesg for an Xid (79), and reboot the machine."
)


def plain(lines: list[list[Piece]]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def quiet(*events: Event) -> Scene:
    """A minute of one GPU without any valley."""
    return scene_of(told(SERVER, gpu(0), *events, Tick(60.0)))


@pytest.fixture
def busy() -> Scene:
    """The canned minute: an Xid beside no valley, the costliest valley explained but not selected."""
    base = scene_of(told(*fleet("gpm", 60.0, HAPPENED)), 90, assess(60.0))
    return replace(base, valley=explained(base.assessment, base.view, None))


@pytest.mark.parametrize(
    "what",
    [
        *("xid", "gpu_lost", "gpu_back", "same_readings", "mig_changed", "nvml_backoff", "our_slow_call"),
        *("server_restarted", "dcgm_left_out", "probe_restarted"),
    ],
)
def test_every_mark_on_the_strip_has_its_sentence_below(what: str) -> None:
    scene = quiet(Event(50.0, what, f"This is what {what} says.", None))
    drawn = ValleyLane().draw(scene, 1)
    assert "!" in "".join(cell[0] for cell in drawn.cells[0])
    assert f"at +50 s: This is what {what} says." in plain(detail.detail_lines(scene, 80, 4))


def test_an_event_out_of_view_and_one_of_no_interest_are_not_told() -> None:
    later = quiet(Event(50.0, "command", "the screen asked for more"), XID)
    assert "asked for more" not in str(besides(later))
    assert besides(replace(later, view=later.view.hold().centre(-500.0))) == ()


@pytest.mark.parametrize("rows", [5, 7])
def test_a_fault_beside_no_valley_is_told_where_none_is_selected(busy: Scene, rows: int) -> None:
    assert f"at +57 s: {XID.says}" in plain(detail.detail_lines(busy, 120, rows))
    assert "event" not in dict(besides(replace(busy, chosen=True)))


def test_the_cursor_on_a_mark_tells_that_one(busy: Scene) -> None:
    for chosen in (True, False):
        at = replace(busy, cursor=SLOW.t, chosen=chosen)
        assert dict(besides(at))["event"] == f"at +34 s: {SLOW.says}"
        assert "meanwhile" not in dict(besides(at))


def test_our_own_doing_does_not_hide_a_fault() -> None:
    scene = quiet(XID, replace(SLOW, t=58.0), replace(SLOW, t=56.0))
    text = dict(besides(scene))["event"]
    assert text == f"at +57 s: {XID.says} · at +58 s: {SLOW.says} · 1 more in view (cursor: , .)"
    assert str(besides(replace(scene, glyphs=ASCII))).isascii()


def lost_scene(*more: Line) -> Scene:
    event = Event(30.0, "gpu_lost", "GPU 0 does not answer any more (GPU is lost).", "nvml/GPU-0")
    return scene_of(told(SERVER, gpu(0), event, *more, Tick(60.0)))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_lost_device_has_its_remedy_on_the_screen_and_the_whole_in_the_help(width: int) -> None:
    scene = lost_scene(replace(gpu(0), says=GONE))
    lines = detail.alert_lines(scene, width)
    assert 1 <= len(lines) <= 2
    assert max(sum(len(text) for text, _ in line) for line in lines) <= width
    assert "reboot the machine." in plain(lines)
    assert GONE in [fact for _, fact in device_facts(scene)]


def test_a_failing_device_says_so_and_one_that_came_back_or_answers_does_not() -> None:
    failing = Health(50.0, "nvml/GPU-0", "devices.nvml", "failing", 30.0, 0.25, None, "The driver hangs; restart it.")
    assert "The driver hangs; restart it." in plain(detail.alert_lines(scene_of(told(gpu(0), failing, Tick(60.0))), 80))
    back = lost_scene(Event(40.0, "gpu_back", "It is back.", "nvml/GPU-0"))
    assert detail.alert_lines(back, 80) == []
    assert detail.alert_lines(quiet(), 80) == []


def test_several_lost_devices_are_counted() -> None:
    gone = [Event(30.0, "gpu_lost", f"GPU {n} went.", f"nvml/GPU-{n}") for n in range(3)]
    scene = scene_of(told(*FLEETS["eight"], *gone, Tick(60.0)))
    assert "(+2 more, see ?) GPU 0 went." in plain(detail.alert_lines(scene, 80))
    remarks = [replace(gpu(n), says="The driver is old.") for n in range(3)]
    scene = scene_of(told(*FLEETS["eight"], *gone, *remarks, Tick(60.0)))
    assert "(+2 more, see ?) GPU 0 went." in plain(detail.alert_lines(scene, 80))


def first_line(*sources: Source) -> str:
    scene = scene_of(told(SERVER, *sources, Tick(1.0)), 90)
    return "".join(text for text, _ in header.first_line(scene, 120, live=True, ended=None, busy=False))


def test_where_only_the_cut_gpu_names_the_server_the_header_speaks_of_its_slices() -> None:
    slices = [mig_slice(n, "1g.10gb") for n in range(2)]
    quiet_slices = [replace(one, entity={**one.entity, "pids": []}) for one in slices]
    line = first_line(mig_parent(), *quiet_slices)
    assert "2 MIG slices" in line
    assert "200 ms (measured" in line
    assert "N/A" not in line
    assert "#0: 1g.10gb" in first_line(mig_parent(), quiet_slices[0], slices[1])


def test_a_slice_with_rare_signals_only_is_not_old_between_two_readings() -> None:
    rare = replace(
        mig_slice(0, "1g.5gb"),
        signals=("device.memory_used",),
        period_by_signal={"device.memory_used": 2.0},
        period=0.2,
        window=0.2,
    )
    health = Health(60.0, rare.id, rare.collector, "ok", 57.5, 0.2)

    def family(source: Source) -> sources.Family:
        return sources.families(told(source, Tick(60.0)), {source.id: health}, 0.0)[0]

    assert not family(rare).old
    assert family(rare).period == 2.0
    assert family(replace(rare, signals=("device.memory_used", "device.sm_active"))).old


def test_after_the_probe_has_gone_no_source_reads_as_healthy() -> None:
    def second(live: bool, ends: str | None) -> str:
        lines: list[Line] = [gpu(0), Health(1.0, "nvml/GPU-0", "devices.nvml", "ok", 0.9, 0.25), Tick(1.0)]
        session = Session(CannedFeed(lines, live=live, ends=ends), None, clock=lambda: 0.0)
        while session.pump(0.1):
            pass
        scene = scene_of(session.timeline)
        shown = header.second_line(scene, 120, session.states, silence=0, probe_share=None, screen_share=None)
        return "".join(text for text, _ in shown)

    assert "● device 0.1 s (4/s)" in second(True, None)
    gone = second(True, "the measuring process died 5 times within a minute")
    assert "✗ device ended" in gone
    assert "0.1 s" not in gone
    assert "● device 0.1 s" in second(False, "end of the file")
