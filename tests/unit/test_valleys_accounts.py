"""What valleys cost together: each device-second with its cause, each token once, and nothing unknown as a number."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from gaptop.recording.lines import Tick
from gaptop.recording.reader import open_stream
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import ledger, report, report_text
from gaptop.valleys.accounts import with_own_tokens
from gaptop.valleys.idle_time import Taken, by_cause
from gaptop.valleys.member import Member
from gaptop.valleys.model import Cause, Segment, Valley, ValleyKind, Verdict
from gaptop.valleys.report_devices import ledger_of

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Stream, analyse, only, stairs, total

TOUR = Path(__file__).parents[1] / "data" / "lab" / "tour.gaptop"


def valley(
    *parts: tuple[float, float, Cause],
    main: Cause = "host_starvation",
    kind: ValleyKind = "utilisation",
    devices: Sequence[str] = ("a",),
    idle: float | None = None,
    tokens: float | None = None,
    id: str = "v",
) -> Valley:
    """A final valley of these segments, idle all the time unless told otherwise."""
    start, end = parts[0][0], parts[-1][1]
    segments = tuple(Segment(*part) for part in parts)
    said = Verdict(main, "", "high", 0.9, None, (), (), (), "", (), segments)
    idle = (end - start) * len(devices) if idle is None else idle
    members = tuple(Member(name, name, start, end, idle / len(devices), windows=False) for name in devices)
    return Valley(
        id, kind, tuple(devices), start, end, 0.2, 0.2, 1.0, idle, 0.0, True, tokens, True, said, members=members
    )


def lost(*valleys: Valley) -> list[ledger.Loss]:
    """What valleys cost whose windows nobody remembers."""
    timeline, taken = Timeline(None), Taken()
    every = {name: math.inf for item in valleys for name in item.devices}
    return [
        loss for item in valleys for loss in ledger.losses(item, "s", by_cause(timeline, item, taken, counted=every))
    ]


def test_tokens_are_booked_with_the_first_device_and_not_as_zero_with_the_others() -> None:
    first, second = lost(valley((10, 12, "host_starvation"), devices=("a", "b"), tokens=800.0))
    assert (first.seconds, first.tokens, first.unknown) == (2.0, 800.0, 0)
    assert (second.seconds, second.tokens, second.unknown) == (2.0, None, 0)


def test_a_valley_that_cost_no_tokens_cost_none_on_any_device() -> None:
    found = lost(valley((10, 12, "no_demand"), main="no_demand", devices=("a", "b"), tokens=0.0))
    assert [loss.tokens for loss in found] == [0.0, 0.0]


def test_what_is_not_known_is_counted_beside_the_sum() -> None:
    known, not_known = valley((1, 2, "host_starvation"), tokens=500.0), valley((4, 5, "host_starvation"))
    for several, expected in (
        ((known, known), (1000.0, 0)),
        ((known, not_known), (500.0, 1)),
        ((not_known, not_known), (None, 2)),
    ):
        (row,) = ledger.rows([], lost(*several))
        assert (row.tokens_lost, row.tokens_unknown, row.valleys) == (*expected, 2)


def test_device_seconds_go_by_segments_and_the_valley_by_its_main_cause() -> None:
    mixed = valley((10, 12, "no_demand"), (12, 12.5, "host_starvation"), main="no_demand", idle=2.0, tokens=0.0)
    rows = {row.cause: row for row in ledger.rows([ledger.DeviceTime("a", 20, 18, 0)], lost(mixed))}
    assert rows["no_demand"].device_seconds == pytest.approx(1.6)
    assert (rows["no_demand"].valleys, rows["no_demand"].tokens_lost) == (1, 0.0)
    assert rows["host_starvation"].device_seconds == pytest.approx(0.4)
    assert (rows["host_starvation"].valleys, rows["host_starvation"].tokens_lost) == (0, None)
    assert rows["host_starvation"].tokens_unknown == 0
    assert sum(row.device_seconds for row in rows.values()) == pytest.approx(20.0)


def test_segments_reach_the_ledger_of_a_stream_and_of_a_window() -> None:
    """The device idles for want of requests, then because the host collects garbage before the first step."""
    low, turn, back = 10.0, 13.0, 15.0
    stream = Stream(25).device(stairs((0, 1.0), (low, 0.0), (back, 1.0)))
    moves = {
        "tokens__decode": total((0, 800), (low, 0), (back, 800)),
        "step__count": total((0, 100), (low, 0), (back, 100)),
    }
    stream.metrics(server(sched__running=stairs((0, 8), (low, 0), (turn, 8)), **moves))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(
        ENGINE, "engine", lambda t: "idle" if low <= t < turn else "gc" if turn <= t < back else "device_sync"
    )
    timeline, state = analyse(stream.lines())
    found = only(state.valleys, kind="utilisation")
    assert {part.cause for part in found.verdict.segments} == {"no_demand", "host_starvation"}
    for window, wanted in ((None, (3.0, 2.0)), ((12.0, 14.0), (1.0, 1.0))):
        made = report.build(timeline, state, window=window)["ledger"]
        seconds = {row["cause"]: row["device_seconds"] for row in made}
        assert (seconds["no_demand"], seconds["host_starvation"]) == pytest.approx(wanted, abs=0.3)


def test_the_ledger_of_one_of_several_devices_holds_nothing_of_the_others() -> None:
    stream = Stream(25)
    for name in ("a", "b"):
        stream.device(stairs((0, 1.0), (10, 0.0), (13, 1.0)), source=f"nvml/GPU-{name}")
    stream.metrics(server(sched__running=stairs((0, 8), (10, 0), (13, 8))))
    stream.stacks(API, "api", lambda t: "idle")
    timeline, state = analyse(stream.lines())
    assert {len(item.devices) for item in state.valleys} == {2}
    one = dataclasses.replace(state, watched=state.watched[:1])
    rows = ledger_of(timeline, one, one.valleys, 0.0, 25.0)
    assert {row.device for row in rows} == {state.watched[0].device}
    assert sum(row.device_seconds for row in rows) == pytest.approx(25.0, abs=0.3)


def test_a_progress_valley_leaves_to_a_utilisation_valley_inside_it_what_that_one_tells() -> None:
    inside = valley((12, 13, "no_demand"), main="no_demand", tokens=500.0, id="u")
    across = valley((13.5, 14.5, "host_starvation"), tokens=400.0, id="w")
    stall = valley((11, 14, "admission_stall"), main="admission_stall", kind="progress", tokens=1900.0, id="p")
    elsewhere = valley((11, 14, "host_starvation"), tokens=9.0, id="e")
    left = with_own_tokens(stall, "s", [(inside, "s"), (across, "s"), (stall, "s"), (elsewhere, "other")])
    assert left.tokens_lost == pytest.approx(1900 - 500 - 200)
    assert left.tokens_shared_with == ("u", "w")
    assert with_own_tokens(stall, "elsewhere", [(inside, "s")]) == stall
    assert with_own_tokens(inside, "s", [(stall, "s")]) == inside


def test_utilisation_valleys_of_one_moment_share_its_tokens() -> None:
    long = valley((10, 13, "host_starvation"), tokens=2400.0, id="a")
    short = valley((12, 12.5, "host_starvation"), devices=("b",), tokens=400.0, id="b")
    both = [(long, "s"), (short, "s")]
    assert with_own_tokens(long, "s", both).tokens_lost == pytest.approx(2200)
    assert with_own_tokens(short, "s", both).tokens_lost == pytest.approx(200)
    free = dataclasses.replace(short, tokens_lost=0.0)
    assert with_own_tokens(long, "s", [(long, "s"), (free, "s")]) == long


def test_one_standstill_of_the_recorded_lab_is_counted_once() -> None:
    timeline, state = analyse(open_stream(TOUR))
    stalls = [item for item in state.valleys if item.kind == "progress"]
    dips = [item for item in state.valleys if item.kind == "utilisation" and item.tokens_lost]
    pairs = [(p, u) for p in stalls for u in dips if p.start_s < (u.end_s or 0) and u.start_s < (p.end_s or 0)]
    assert pairs
    for stall, dip in pairs:
        assert dip.id in stall.tokens_shared_with
        # At most what the server makes in all that time: it decodes some 950 tokens a second.
        assert (stall.tokens_lost or 0) + (dip.tokens_lost or 0) < 1000 * ((stall.end_s or 0) - stall.start_s)
    told = sum(item.tokens_lost or 0.0 for item in state.valleys)
    assert sum(row.tokens_lost or 0.0 for row in state.ledger) == pytest.approx(told)
    text = report_text.render(report.build(timeline, state, window=None), ascii=True, width=100)
    assert f"besides those of {pairs[0][1].id}" in " ".join(text.split())


def slow_from(start: float, seconds: float) -> Stream:
    """A host that schedules for so long that the device works at 30 % and progress comes at 30 %, to the end."""
    stream = Stream(seconds).device(stairs((0, 1.0), (start, 0.3)))
    stream.metrics(
        server(tokens__decode=total((0, 800), (start, 240)), step__count=total((0, 100), (start, 30))),
    )
    return stream.stacks(ENGINE, "engine", lambda t: "schedule" if t >= start else "device_sync")


def test_a_loss_that_lasts_does_not_leave_its_cause_silently() -> None:
    timeline, state = analyse(slow_from(12.0, 110.0).lines())
    dip = only(state.valleys, kind="utilisation")
    assert dip.became_level
    assert dip.end_s == pytest.approx(72.0, abs=0.5)
    (plateau,) = [item for item in state.plateaus if item.start_s > 60]
    assert plateau.continues == dip.id
    told = f"GPU-a has not come back from the valley at {dip.start_s:.1f} s (host starvation)"
    assert any(told in text for text in state.hints)
    made = report.build(timeline, state, window=None)
    text = " ".join(report_text.render(made, ascii=True, width=100).split())
    assert "until it became the usual level" in text
    assert f"goes on from valley {dip.id}" in text
    assert [item["became_level"] for item in made["valleys"] if item["kind"] == "utilisation"] == [True]


def test_a_valley_that_ends_by_a_rise_became_no_level() -> None:
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(ENGINE, "engine", engine("gc"))
    _, state = analyse(stream.lines())
    assert [item.became_level for item in state.valleys] == [False]
    assert not any("not come back" in text for text in state.hints)


@pytest.mark.parametrize("devices", [True, False])
def test_a_valley_that_is_open_when_the_stream_ends_stays_open(devices: bool) -> None:
    stream = Stream(END)
    if devices:
        stream.device(stairs((0, 1.0), (LOW, 0.0)))
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 0)), step__count=total((0, 100), (LOW, 0))))
    stream.stacks(ENGINE, "engine", lambda t: "gc" if t >= LOW else "device_sync")
    timeline, state = analyse(stream.lines())
    (found,) = state.valleys
    assert (found.end_s, found.final, state.ended) == (None, False, True)
    assert found.verdict.cause == "host_starvation"
    assert ledger.reached(found) == pytest.approx(END, abs=1.0)
    made = report.build(timeline, state, window=None)
    assert [(item["end_s"], item["final"]) for item in made["valleys"]] == [(None, False)]
    assert made["ended"] is True
    text = " ".join(report_text.render(made, ascii=True, width=100).split())
    assert "still open when watching ended" in text
    row = next(row for row in made["ledger"] if row["cause"] == "host_starvation")
    assert row["device_seconds"] == pytest.approx(END - LOW, abs=1.0)


def test_a_valley_whose_devices_fell_silent_with_the_probe_is_still_open() -> None:
    """The last tick comes when the recorders have handed over, a second after the last reading."""
    stream = Stream(END).device(stairs((0, 1.0), (LOW, 0.0))).metrics(server(**stopped_progress()))
    lines = stream.lines()
    _, state = analyse([*lines, Tick(END + 1.5)])
    found = only(state.valleys, kind="utilisation")
    assert found.end_s is None
    assert found.end_error_s == pytest.approx(0.2)


def test_a_valley_that_has_ended_is_final_when_the_stream_ends() -> None:
    stream = Stream(BACK + 0.9).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    _, state = analyse(stream.lines())
    found = only(state.valleys, kind="utilisation")
    assert found.final
    assert found.end_s == pytest.approx(BACK, abs=0.1)
