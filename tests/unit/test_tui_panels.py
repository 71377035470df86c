"""The lines of text around the picture."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from functools import cache

import pytest

from gaptop.recording.lines import Health, Source, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.tui import figures, layout, palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.glyphs import ASCII, UNICODE, Glyphs
from gaptop.tui.lower import Lower
from gaptop.tui.panels import chain, detail, header, ledger, sources
from gaptop.tui.scene import Scene, explained
from gaptop.tui.seen import resolution
from gaptop.tui.view import usual_view
from gaptop.valleys.model import Assessment, HotPath, LedgerRow, Segment, ThreadStacks
from tests.screenshots.canned import DEVICE, METRICS, classify, stream
from tests.screenshots.judged import assess
from tests.snapshots.recurring import PERIOD, TREND, recurring


@cache
def timeline_at(now: float, simulated: bool) -> Timeline:
    timeline = Timeline(classify)
    for line in stream(now, simulated):
        timeline.apply(line)
    return timeline


def scene_at(now: float = 60.0, glyphs: Glyphs = UNICODE, chosen: str | None = None, simulated: bool = False) -> Scene:
    timeline = timeline_at(now, simulated)
    view = usual_view(90, timeline.now)
    said = assess(now)
    valley = explained(said, view, chosen)
    start = figures.moment("2025-03-14T14:02:20Z")
    return Scene(timeline, timeline.sources, said, view, now, None, valley, chosen is not None, glyphs, start, UTC)


def plain(pieces: list[Piece]) -> str:
    return "".join(text for text, _ in pieces)


def first(scene: Scene, width: int = 120, live: bool = True, ended: str | None = None) -> str:
    return plain(header.first_line(scene, width, live=live, ended=ended, busy=False))


def test_the_header_names_server_device_and_resolution() -> None:
    line = first(scene_at())
    for part in ("vLLM 0.32.0", "mid-8b", "127.0.0.1:8000", "RTX 3090 #0", "resolution 200 ms (measured", "LIVE"):
        assert part in line
    assert "SIMULATED" not in line
    assert "SIMULATED" in first(scene_at(simulated=True), 80)


def test_a_held_view_says_how_far_live_has_moved() -> None:
    scene = scene_at()
    held = replace(scene, view=scene.view.pan(-24, scene.now))
    assert "PAUSED, live is +14 s" in first(held)
    assert "stream ended: the probe died" in first(scene, ended="the probe died")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_reason_for_the_end_does_not_hide_that_all_is_simulated(width: int) -> None:
    why = "the measuring process died 5 times within a minute, so nothing is measured any more"
    line = header.first_line(scene_at(simulated=True), width, live=True, ended=why, busy=False)
    assert "SIMULATED" in plain(line)
    assert "stream ended: the mea" in plain(line)
    assert width_of(line) <= width


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_header_lines_fit(width: int, glyphs: Glyphs) -> None:
    scene = scene_at(glyphs=glyphs)
    healths = {DEVICE: Health(60.0, DEVICE, "devices.nvml", "failing", 58.0, 0.2)}
    second = header.second_line(scene, width, healths, silence=3.0, probe_share=0.031, screen_share=0.04)
    assert width_of(second) == width
    assert width_of(header.first_line(scene, width, live=True, ended=None, busy=False)) == width


def test_window_that_is_assumed_or_unknown_is_said_so() -> None:
    timeline = Timeline(None)
    for window, words in ((None, "polled every 200 ms"), (0.167, "resolution 167 ms (assumed)")):
        timeline.apply(Source(0.0, "d", "devices.nvml", "device", {}, ("device.busy",), 0.2, window=window))
        assert resolution([timeline.sources["d"].info]) == words


def test_a_source_that_is_late_shows_it_in_words() -> None:
    timeline = Timeline(None)
    timeline.apply(Source(0.0, METRICS, "engines.vllm", "server", {}, ("sched.running",), 0.5))
    timeline.apply(Tick(10.0))
    ok = {METRICS: Health(10.0, METRICS, "engines.vllm", "ok", 9.8, 0.5)}
    old = {METRICS: Health(10.0, METRICS, "engines.vllm", "ok", 5.0, 0.5)}
    bad = {METRICS: Health(10.0, METRICS, "engines.vllm", "refused", 5.0, 0.5)}
    assert _say(timeline, ok) == "● metrics 0.2 s (2/s)"
    assert _say(timeline, old) == "○ metrics 5.0 s old (2/s)"
    assert _say(timeline, bad) == "✗ metrics refused"
    assert _say(timeline, ok, silence=4.0) == "○ metrics 4.2 s old (2/s)"


def test_windows_of_stacks_are_pending_and_not_old() -> None:
    timeline = Timeline(None)
    timeline.apply(Tick(10.0))
    healths = {"t": Health(10.0, "t", "host.threads_pyspy", "ok", 7.0, 0.5)}
    assert _say(timeline, healths) == "● threads 3.0 s pending"


def test_an_ended_helper_does_not_speak_for_its_family() -> None:
    timeline = Timeline(None)
    timeline.apply(Tick(10.0))
    ended = Health(10.0, "a", "host.threads_proc", "ended", 2.0, 0.5)
    going = Health(10.0, "b", "host.threads_proc", "ok", 10.0, 0.5)
    assert _say(timeline, {"a": ended, "b": going}).startswith("● threads")
    assert _say(timeline, {"a": ended}).startswith("✗ threads ended")


def test_a_kind_of_device_that_was_never_there_does_not_speak_for_one_that_works() -> None:
    timeline = Timeline(None)
    timeline.apply(Tick(10.0))
    absent = Health(10.0, "devices.nvml", "devices.nvml", "absent")
    works = Health(10.0, "cpu/server", "devices.cpu", "ok", 9.9, 0.1)
    lost = Health(10.0, "nvml/1", "devices.nvml", "absent", 5.0, 0.1)
    assert _say(timeline, {"a": absent, "b": works}).startswith("● device 0.1 s")
    assert _say(timeline, {"a": absent}) == "✗ device absent"
    assert _say(timeline, {"a": lost, "b": works}) == "✗ device absent"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_chain_fits_and_names_the_blocked_link(width: int, glyphs: Glyphs) -> None:
    scene = scene_at(chosen="v2", glyphs=glyphs)
    assert scene.valley is not None
    pieces = chain.chain_pieces(scene, scene.valley.verdict.chain, width - 4)
    assert "KV" in plain(pieces)
    if width >= 80:
        assert width_of(pieces) <= width - 4
    if width >= 120:
        assert "KV BLOCKED 0.98" in plain(pieces) or "KV blocks BLOCKED 0.98" in plain(pieces)
    if glyphs is ASCII:
        assert plain(pieces).isascii()


def test_the_detail_keeps_cause_confidence_remedy_in_few_lines() -> None:
    lines = [plain(line) for line in detail.detail_lines(scene_at(chosen="v2"), 80, 5)]
    assert len(lines) == 5
    assert "K CACHE PRESSURE" in lines[0]
    assert "HIGH" in lines[0]
    assert lines[2].startswith("   for ")
    assert lines[3].startswith("   against ")
    assert lines[4].startswith("   try ")
    assert all(width_of([(line, palette.PLAIN)]) <= 80 for line in lines)


@pytest.mark.parametrize("sentence", ["One.", "It went idle " * 8])
def test_at_eighty_by_twenty_four_the_first_advice_is_read_whole(sentence: str) -> None:
    scene = scene_at(chosen="v2")
    assert scene.valley is not None
    wise = (
        "Lower --max-num-batched-tokens so that a prefill takes less of each step, or cap the long ones. No KV helps."
    )
    said = replace(scene.valley.verdict, advice=wise)
    shown = replace(scene, valley=replace(scene.valley, verdict=said), assessment=Assessment(60.0, sentence=sentence))
    lines = list(map(plain, Lower().lines(shown, 80, layout.split(24).detail)))
    text = " ".join(" ".join(lines).split())
    for part in ("K CACHE PRESSURE", "HIGH", "KV✗", "for KV 0.96–0.99 for 6.8 s", "or cap the long ones."):
        assert part in text
    assert ("against" in text) is (sentence == "One.")
    assert len(lines) == layout.split(24).detail


def test_the_letters_inside_a_valley_are_named_below_it() -> None:
    scene = scene_at(chosen="v2")
    assert scene.valley is not None
    parts = (Segment(32.0, 34.0, "cache_pressure"), Segment(34.0, 34.5, "host_starvation"))
    said = replace(scene.valley.verdict, segments=parts)
    lines = detail.detail_lines(replace(scene, valley=replace(scene.valley, verdict=said)), 120, 11)
    assert "   parts     K cache pressure 2.0 s ▸ H host starvation 500 ms" in map(plain, lines)
    assert not [line for line in map(plain, detail.detail_lines(scene, 120, 11)) if "parts" in line]


def _row(cause: str, seconds: float, tokens: float | None) -> LedgerRow:
    return LedgerRow("gpu", cause, 1, seconds, tokens, seconds / 60.0)


def test_the_ledger_ranks_by_time_and_what_cost_none_by_tokens_and_says_so() -> None:
    rows = (
        *(_row("prefill_interference", 0.02, 1100.0), _row("cache_pressure", 0.01, 2900.0)),
        *(_row("admission_stall", 1.2, 10.0), _row("host_starvation", 3.0, None), _row("busy", 50.0, None)),
    )
    scene = replace(scene_at(), assessment=Assessment(60.0, ledger=rows))
    text = plain(ledger.ledger_pieces(scene, 120))
    assert text == (
        " LEDGER 60 s by time H host 5.0 % A admission 2.0 % │ by tokens K cache 2.9k P prefill 1.1k │ busy 83 %"
    )
    assert "by tokens K cache 2.9k" in plain(ledger.ledger_pieces(scene, 80))


@pytest.mark.parametrize(
    ("ended", "moved", "title"),
    [
        (False, 0.0, " now, and the costliest valley in view (by seconds lost) "),
        (True, 0.0, " the whole stream, and the costliest valley in view (by seconds lost) "),
        (True, -500.0, " the whole stream, and the last valley: none is in view "),
    ],
)
def test_what_is_explained_is_named_with_what_it_was_chosen_by(ended: bool, moved: float, title: str) -> None:
    scene = scene_at()
    there = scene.view.hold().centre(moved) if moved else scene.view
    said = replace(scene.assessment, ended=ended)
    valley = explained(said, there, None, going=not ended)
    assert Lower().title(replace(scene, assessment=said, view=there, valley=valley)) == title


def test_the_detail_shows_where_the_critical_thread_was() -> None:
    scene = scene_at(chosen="v2")
    assert scene.valley is not None
    paths = tuple(
        HotPath((("run", "a.py", 1), (f"f{n}[b]", f"/srv/vllm/core/b{n}.py", n)), "gc", share)
        for n, share in enumerate((0.62, 0.2, 0.1, 0.004))
    )
    paths = (*paths, HotPath((("other", "a.py", 9), ("f1[b]", "/srv/vllm/core/b1.py", 1)), "gc", 0.05))
    stacks = (ThreadStacks("EngineCore", 7, "engine", "Main\x1b[2J", 7, 1.0, 0.0, paths),)
    shown = replace(scene, valley=replace(scene.valley, stacks=stacks))
    lines = [plain(line) for line in detail.detail_lines(shown, 160, 12)]
    (told,) = (line for line in lines if line.startswith("   stacks"))
    assert told == (
        "   stacks    engine Main\u241b[2J: 62 % f0[b] in core/b0.py · 25 % f1[b] in core/b1.py:1 · "
        "10 % f2[b] in core/b2.py:2"
    )
    assert not [line for line in map(plain, detail.detail_lines(scene, 160, 12)) if "stacks" in line]


def test_what_a_valley_cost_is_said_and_no_demand_is_no_loss() -> None:
    assert "lost 4 410 tokens, 5.5 s idle" in plain(detail.detail_lines(scene_at(chosen="v2"), 120, 9)[0])
    assert "no loss" in plain(detail.detail_lines(scene_at(chosen="v0"), 120, 9)[0])


def test_without_a_valley_there_is_a_sentence_and_the_hints() -> None:
    scene = scene_at()
    empty = replace(scene, valley=None, assessment=Assessment(60.0, hints=("run gaptop doctor",)))
    assert [plain(line) for line in detail.detail_lines(empty, 80, 5)] == [
        " ▸ No valley so far.",
        "   run gaptop doctor",
    ]


def test_an_open_valley_is_explained_first_then_the_costliest() -> None:
    view = usual_view(120, 60.0)
    cases = ((50.0, None, "cache_pressure"), (48.2, None, "host_starvation"), (50.0, "v0", "no_demand"))
    for now, chosen, cause in cases:
        valley = explained(assess(now), view, chosen)
        assert valley is not None
        assert valley.verdict.cause == cause


def test_once_nothing_comes_any_more_an_open_valley_does_not_come_first() -> None:
    view, said = usual_view(120, 48.2), assess(48.2)
    for going, cause in ((True, "host_starvation"), (False, "cache_pressure")):
        valley = explained(said, view, None, going=going)
        assert valley is not None
        assert valley.verdict.cause == cause


def test_the_ledger_puts_losses_first_and_what_is_none_last() -> None:
    text = plain(ledger.ledger_pieces(scene_at(), 120))
    assert text.index("cache") < text.index("host") < text.index("no demand")
    assert "(no loss)" in text
    assert width_of(ledger.ledger_pieces(scene_at(), 60)) <= 60


def test_under_the_ledger_stand_a_period_and_a_trend_with_whose_they_are() -> None:
    scene = scene_at()
    assert ledger.note_lines(scene) == []
    scene = replace(scene, assessment=recurring(scene.assessment))
    period, trend = map(plain, ledger.note_lines(scene))
    assert period == " every 1.5 s (±0.1), 24 times: H host, garbage collection"
    assert trend == f" {TREND.sentence}"
    ascii = replace(scene, glyphs=ASCII)
    assert all(plain(line).isascii() for line in ledger.note_lines(ascii))
    elsewhere = replace(PERIOD, devices=(), detail="\x1b[2J")
    said = replace(scene.assessment, periods=(PERIOD, replace(elsewhere, times=25)), trends=())
    (line,) = map(plain, ledger.note_lines(replace(scene, assessment=said)))
    assert line.startswith(" progress: every 1.5 s (±0.1), 25 times")
    assert "\x1b" not in line


def test_untrusted_names_are_neither_markup_nor_escapes() -> None:
    timeline = Timeline(None)
    model = "[bold]x[-]\x1b]0;pwned\x07"
    entity = {"engine": "vllm", "model": model, "url": "http://h\x1b[2J"}
    timeline.apply(Source(0.0, METRICS, "engines.vllm", "server", entity, ("sched.running",), 0.5))
    scene = replace(scene_at(), timeline=timeline, sources=timeline.sources)
    line = first(scene)
    assert "\x1b" not in line
    assert "[bold]x" in line


def _say(timeline: Timeline, healths: dict[str, Health], silence: float = 0.0) -> str:
    [family] = sources.families(timeline, healths, silence)
    return plain(sources.pieces(family, UNICODE, True))


def test_a_process_that_is_left_out_does_not_speak_for_the_one_that_is_watched() -> None:
    timeline = Timeline(None)
    healths = {}
    for pid, paused in ((1, False), (2, True)):
        name, entity = f"threads/{pid}", {"pid": pid, "role": "engine"}
        timeline.apply(Source(0.0, name, "host.threads_pyspy", "process", entity, (), 4.0, paused=paused))
        healths[name] = Health(9.0, name, "host.threads_pyspy", "backoff" if paused else "ok", None if paused else 8.5)
    timeline.apply(Tick(9.0))
    assert _say(timeline, healths) == "● threads 0.5 s 1 left out"
    del healths["threads/1"]
    assert _say(timeline, healths) == "○ threads backoff 1 left out"
