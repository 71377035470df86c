"""What stands beside a valley's argument: how well it was measured, what else happened, what cannot be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Event, Health, Tick
from gaptop.tui import figures
from gaptop.tui.cells import Piece
from gaptop.tui.glyphs import ASCII
from gaptop.tui.panels import detail, header
from gaptop.tui.panels.besides import besides, measured
from gaptop.tui.scene import Scene, explained
from gaptop.valleys.model import Assessment, Plateau, ShallowDip
from gaptop.valleys.witnesses import COUNTERS
from tests.screenshots.judged import assess
from tests.snapshots.fleets import FLEETS, HAPPENED, NO_PIDS, fleet, gpu
from tests.snapshots.scenes import SERVER, columns_of, scene_of, told

BLIND = "NVML cannot see gaps shorter than 200 ms one by one; a kernel trace can."
DIP = ShallowDip("GPU-0", 29.0, 29.2, 0.2, 0.2, 0.093, 0.001, (0.06, 0.093), False, ("device.busy",))


@pytest.fixture
def scene() -> Scene:
    """The canned minute on one GPU, its third valley chosen."""
    base = scene_of(told(*fleet("gpm", 60.0, HAPPENED)), 90, assess(60.0))
    return replace(base, valley=explained(base.assessment, base.view, "v2"), chosen=True)


def plain(lines: list[list[Piece]]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.18, 0.42, "180–420 ms"), (0.0, 0.09, "up to 90 ms"), (0.4, 1.26, "400 ms–1.3 s"), (2.0, 2.02, "2.0 s")],
)
def test_a_length_between_two_bounds(low: float, high: float, words: str) -> None:
    assert figures.bounds(low, high) == words


def test_idle_time_has_its_error_the_longest_gap_its_bounds_and_the_witnesses_their_names(scene: Scene) -> None:
    assert scene.valley is not None
    agreeing = ("device.busy", "device.power", "tokens.decode")
    valley = replace(scene.valley, longest_gap_s=(0.18, 0.42), agreeing=agreeing)
    assert measured(scene, valley) == "5.5 s ±200 ms · longest gap 180–420 ms · confirmed by power and decode tokens"
    alone = replace(valley, confirmed=False, agreeing=("device.busy",), longest_gap_s=None)
    assert measured(scene, alone) == "5.5 s ±200 ms · suspected: one signal alone (utilisation)"
    unseen = replace(alone, idle_s=None, idle_error_s=None, agreeing=())
    assert measured(scene, unseen) == "suspected: one signal alone"
    assert measured(replace(scene, glyphs=ASCII), valley).isascii()


def test_every_witness_of_a_valley_has_a_name_in_words(scene: Scene) -> None:
    seen = (*COUNTERS, "sched.running", "host.thread_activity", "host.compilers", "device.energy", "device.power")
    assert scene.valley is not None
    for witness in (*seen, "step.count", "tokens.decode"):
        said = measured(scene, replace(scene.valley, confirmed=True, agreeing=("device.busy", witness)))
        assert "." not in said.rpartition("confirmed by ")[2], witness
    three = replace(
        scene.valley, confirmed=True, agreeing=("device.busy", "device.power", "step.count", "sched.running")
    )
    assert measured(scene, three).endswith("confirmed by power, engine steps and requests running")


def test_the_detail_keeps_them_behind_cause_and_remedy(scene: Scene) -> None:
    rows = plain(detail.detail_lines(scene, 120, 8))
    labels = [row[3:13].strip() for row in rows[2:]]
    assert labels[0] == "for"
    assert "try" in labels
    assert "idle" in labels
    assert "idle" not in [row[3:13].strip() for row in plain(detail.detail_lines(scene, 120, 5))]


def test_our_own_slow_call_during_the_valley_is_told_and_another_time_is_not(scene: Scene) -> None:
    assert ("meanwhile", HAPPENED[0].says) in besides(scene)
    elsewhere = replace(scene, valley=explained(scene.assessment, scene.view, "v0"))
    assert "meanwhile" not in dict(besides(elsewhere))


def test_an_event_of_no_interest_is_not_told(scene: Scene) -> None:
    scene.timeline.apply(Event(34.5, "command", "the screen asked for more"))
    assert "asked for more" not in dict(besides(scene))["meanwhile"]


def test_dips_and_plateaus_in_view_bring_what_cannot_be_seen(scene: Scene) -> None:
    bare = replace(scene, assessment=Assessment(60.0), valley=None)
    assert besides(bare) == ()
    dipped = replace(scene, assessment=Assessment(60.0, dips=(DIP, DIP)), valley=None)
    said = dict(besides(dipped))
    assert said["dips"].startswith(
        "2 shallow dips in view, the last at +29.0 s: 93 ms ±1 ms idle, longest gap 60–93 ms"
    )
    assert "suspected: one signal alone" in said["dips"]
    assert said["blind"] == BLIND
    flat = replace(scene, assessment=Assessment(60.0, plateaus=(Plateau("GPU-0", 26.0, 30.0, 0.93, 0.002),)))
    assert dict(besides(flat))["plateau"] == "busy 93 % for 4.0 s: recurring short gaps, 2 ms idle a step"
    assert dict(besides(flat))["blind"] == BLIND
    elsewhere = replace(flat, view=columns_of(0.1, 10), valley=None)
    assert besides(elsewhere) == ()


def test_without_a_valley_the_screen_still_says_them(scene: Scene) -> None:
    said = Assessment(60.0, dips=(DIP,))
    text = "\n".join(plain(detail.detail_lines(replace(scene, assessment=said, valley=None), 120, 6)))
    assert "one shallow dip in view" in text
    assert BLIND in text


def test_an_unknown_mapping_stands_in_the_sources_and_in_the_detail() -> None:
    timeline = told(SERVER, *FLEETS["unmapped"], Tick(1.0))
    scene = scene_of(timeline)
    assert besides(scene) == (("mapping", f"unknown: {NO_PIDS}"),)
    health = next(line for line in fleet("unmapped", 2.0) if isinstance(line, Health))
    pieces = header.second_line(
        scene,
        120,
        {health.src: health},
        silence=0,
        probe_share=None,
        screen_share=None,
    )
    assert "mapping unknown" in "".join(text for text, _ in pieces)


def test_what_our_own_calls_cost_stands_beside_our_own_cost_where_there_is_room() -> None:
    scene = scene_of(told(*fleet("eight", 20.0)))
    cost = {"silence": 0.0, "probe_share": 0.03, "screen_share": None}
    wide = "".join(text for text, _ in header.second_line(scene, 120, {}, **cost))  # type: ignore[arg-type]
    assert "monitor cost 9.6 ms/s  self 3.0 % of a core" in wide
    narrow = "".join(text for text, _ in header.second_line(scene, 60, {}, **cost))  # type: ignore[arg-type]
    assert "monitor" not in narrow
    assert len(narrow) == 60


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_how_finely_the_device_is_seen_never_gives_way(width: int) -> None:
    long = gpu(0, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition")
    server = replace(SERVER, entity={**SERVER.entity, "engine": "vllm", "version": "0.32.0+cu130", "model": "m" * 60})
    scene = scene_of(told(server, long, Tick(1.0)))
    line = "".join(text for text, _ in header.first_line(scene, width, live=True, ended=None, busy=False))
    assert "200 ms (measured" in line
    assert len(line) == width
