"""Valleys of the report against a hand-made truth whose right answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gaptop.lab.score.as_json import json_of
from gaptop.lab.score.match import Judged, Truth, match
from gaptop.lab.score.seen import Piece, Stretch
from gaptop.lab.score.table import render
from gaptop.lab.score.tally import CaseScore, macro, tally
from gaptop.valleys.model import Cause, Confidence, Segment, Valley, ValleyKind, Verdict

GPU = {"GPU-0": 0, "GPU-1": 1}


def valley(
    start: float,
    end: float,
    cause: Cause,
    *,
    kind: ValleyKind = "utilisation",
    devices: tuple[str, ...] = ("GPU-0",),
    confidence: Confidence = "high",
    segments: tuple[Segment, ...] = (),
) -> Valley:
    said = Verdict(cause, "", confidence, 0.9, None, (), (), (), "", (), segments or (Segment(start, end, cause),))
    return Valley(
        id=f"u{start:.2f}",
        kind=kind,
        devices=devices,
        start_s=start,
        end_s=end,
        start_error_s=0.2,
        end_error_s=0.2,
        depth_ratio=1.0,
        idle_s=end - start,
        idle_error_s=0.0,
        confirmed=True,
        tokens_lost=None,
        final=True,
        verdict=said,
    )


def truth(
    idle: Sequence[Piece] = (), stalls: Sequence[Piece] = (), stretches: Sequence[Stretch] = (), device: int = 0
) -> Truth:
    dips = [(item.start, item.end) for item in idle if item.end - item.start > 0.05]
    return Truth({device: tuple(idle)}, tuple(stalls), tuple(stretches), {device: dips})


def judged(one: Valley, true: Truth) -> Judged:
    (found,) = match([one], true, GPU).judged
    return found


def test_the_true_cause_is_that_of_most_of_the_idle_time() -> None:
    true = truth([Piece(10.0, 10.8, "host_starvation"), Piece(10.8, 13.0, "no_demand")])
    found = judged(valley(10.0, 13.0, "host_starvation"), true)
    assert (found.truth, found.right) == ("no_demand", False)
    assert found.seconds == pytest.approx({"host_starvation": 0.8, "no_demand": 2.2})
    assert judged(valley(10.0, 13.0, "no_demand"), true).right


def test_either_of_two_like_causes_is_acceptable_and_segments_count_by_time() -> None:
    true = truth([Piece(10.0, 11.0, "host_starvation"), Piece(11.0, 12.2, "no_demand")])
    parts = (Segment(10.0, 11.5, "host_starvation"), Segment(11.5, 12.2, "no_demand"))
    for cause in ("host_starvation", "no_demand"):
        found = judged(valley(10.0, 12.2, cause, segments=parts), true)
        assert found.acceptable
        assert (found.truth, found.right) == ("no_demand", cause == "no_demand")
        assert (found.right_s, found.true_s) == pytest.approx((1.7, 2.2))
    assert not judged(valley(10.0, 12.2, "compiling"), true).acceptable


def test_a_valley_over_ordinary_gaps_is_invented() -> None:
    gaps = [Piece(10.0 + 0.03 * index, 10.001 + 0.03 * index, "host_starvation") for index in range(30)]
    assert judged(valley(10.0, 10.9, "host_starvation"), truth(gaps)).truth is None


def test_another_devices_idle_time_is_not_mine() -> None:
    true = truth([Piece(10.0, 12.0, "synchronisation")], device=1)
    assert judged(valley(10.0, 12.0, "synchronisation"), true).truth is None
    assert judged(valley(10.0, 12.0, "synchronisation", devices=("GPU-1",)), true).right


def test_a_progress_valley_is_judged_by_the_stall_and_not_by_what_idles_beside_it() -> None:
    true = truth(
        [Piece(10.0 + 0.3 * index, 10.05 + 0.3 * index, "host_starvation") for index in range(10)],
        [Piece(10.0, 13.0, "prefill_interference")],
    )
    assert judged(valley(10.0, 13.0, "prefill_interference", kind="progress"), true).right


def test_a_standstill_without_a_stall_is_judged_by_the_idle_devices() -> None:
    true = truth([Piece(10.0, 13.0, "no_demand")])
    assert judged(valley(10.0, 13.0, "no_demand", kind="progress", devices=()), true).right


def test_a_long_valley_that_only_touches_something_real_is_invented() -> None:
    true = truth([Piece(10.0, 11.0, "no_demand")])
    assert judged(valley(10.5, 20.0, "no_demand"), true).truth is None


def test_what_is_only_acceptable_is_counted_apart() -> None:
    like = replace(verdict("synchronisation", "host_starvation"), accepted=("host_starvation", "synchronisation"))
    assert tally([case(like)]).by_cause["synchronisation"].right == 0
    assert tally([case(like)], either=True).by_cause["host_starvation"].right == 1


def test_an_invented_valley_at_high_confidence_is_not_right() -> None:
    made_up = tally([case(verdict(None, "compiling"), verdict("no_demand", "no_demand"))])
    assert made_up.confidence["high"] == (1, 2)


def test_a_cause_that_was_said_and_never_true_takes_from_the_mean() -> None:
    score = tally([case(verdict("no_demand", "no_demand"), verdict("no_demand", "compiling"))])
    assert macro(score.by_cause, ("no_demand", "compiling")) == pytest.approx(1 / 3)


def test_slow_progress_tells_the_cause_by_what_was_lost_and_makes_no_valley() -> None:
    slow = [Piece(10.5, 14.0, "cache_pressure", weight=0.4)]
    inside = Truth({}, [Piece(10.0, 10.5, "prefill_interference")], (), {}, slow)
    found = judged(valley(10.0, 14.0, "cache_pressure", kind="progress"), inside)
    assert found.seconds == pytest.approx({"prefill_interference": 0.5, "cache_pressure": 1.4})
    assert found.right
    alone = Truth({}, (), (), {}, slow)
    assert judged(valley(10.0, 14.0, "cache_pressure", kind="progress"), alone).truth is None


def test_a_standstill_while_the_driver_says_busy_is_about_that() -> None:
    true = Truth({}, (), (), {}, [Piece(10.0, 14.0, "artefact")])
    assert judged(valley(10.0, 14.0, "artefact", kind="progress"), true).right


def test_a_silence_is_not_invented_where_no_device_is_seen() -> None:
    unseen = Truth({0: (Piece(10.0, 13.0, "no_demand"),)}, (), (), {})
    assert judged(valley(10.0, 13.0, "no_demand", kind="progress", devices=()), unseen).right


def test_a_stretch_is_found_by_half_of_it() -> None:
    pieces = (Piece(10.0, 12.0, "no_demand"),)
    sure = Stretch(0, 10.0, 12.0, pieces)
    unsure = Stretch(0, 20.0, 20.2, (Piece(20.0, 20.2, "no_demand"),), "too short")
    true = truth(pieces, stretches=(sure, unsure))
    assert match([valley(10.0, 11.1, "no_demand")], true, GPU).sure == ((sure, "no_demand"),)
    assert match([valley(10.0, 10.9, "no_demand")], true, GPU).sure == ((sure, None),)
    assert match([valley(10.0, 12.0, "no_demand", devices=("GPU-1",))], true, GPU).sure == ((sure, None),)


def test_a_stretch_is_called_what_most_of_its_time_is_called() -> None:
    pieces = (Piece(10.0, 12.0, "no_demand"),)
    true = truth(pieces, stretches=(Stretch(0, 10.0, 12.0, pieces),))
    parts = (Segment(9.0, 11.1, "compiling"), Segment(11.1, 12.0, "no_demand"))
    said = valley(9.0, 12.0, "no_demand", segments=parts)
    assert match([said], true, GPU).sure[0][1] == "compiling"
    # A standstill speaks for a device's gap only where no valley of the device does.
    beside = valley(9.0, 12.0, "external_wait", kind="progress", devices=())
    assert match([said, beside], true, GPU).sure[0][1] == "compiling"
    assert match([beside], true, GPU).sure[0][1] == "external_wait"


def case(*items: Judged, sure: tuple[tuple[Cause, Cause | None], ...] = (), **more: Any) -> CaseScore:
    return CaseScore(7, items, sure, more.get("excused", ()), more.get("booked", ()), 0.1)


def verdict(true: Cause | None, said: Cause, confidence: str = "high", seconds: float = 1.0) -> Judged:
    accepted = () if true is None else (true,)
    right = seconds if true == said else 0.0
    return Judged("u1", "utilisation", 0.0, seconds, said, "", confidence, true, accepted, {}, right, seconds)


def test_an_abstention_takes_from_recall_and_from_no_precision() -> None:
    score = tally(
        [
            case(
                verdict("no_demand", "no_demand"),
                verdict("no_demand", "unknown", "low"),
                verdict("host_starvation", "host_starvation"),
                verdict("host_starvation", "no_demand", "medium", seconds=3.0),
            )
        ]
    )
    demand, host = score.by_cause["no_demand"], score.by_cause["host_starvation"]
    assert (demand.precision, demand.recall, demand.f1) == (0.5, 0.5, 0.5)
    assert (demand.unsure, host.unsure) == (1, 0)
    assert (host.precision, host.recall) == (1.0, 0.5)
    assert host.f1 == pytest.approx(2 / 3)
    numbers = score.numbers()
    assert numbers["macro_f1_six"] == pytest.approx((0.5 + 2 / 3) / 2, abs=1e-4)
    assert numbers["unknown_ratio"] == 0.25
    assert numbers["high_right_ratio"] == 1.0
    assert score.confidence == {"high": (2, 2), "medium": (0, 1), "low": (0, 0)}
    assert numbers["time_weighted_accuracy"] == pytest.approx(2 / 6, abs=1e-4)


def test_invented_and_missed_ones_have_ratios_of_their_own() -> None:
    right: tuple[Cause, Cause | None] = "no_demand", "no_demand"
    lost: tuple[Cause, Cause | None] = "no_demand", None
    sure = (right, right, right, lost)
    score = tally([case(verdict(None, "compiling"), verdict("no_demand", "no_demand"), sure=sure)])
    numbers = score.numbers()
    assert numbers["invented_ratio"] == 0.5
    assert numbers["missed_ratio"] == 0.25
    assert numbers["macro_f1_all"] == 1.0
    assert score.by_cause["compiling"].said == 0
    assert score.by_cause["no_demand"].missed == 1


def test_nothing_measured_is_no_zero() -> None:
    numbers = tally([]).numbers()
    assert set(numbers.values()) == {None}


def test_the_json_form_has_these_keys_and_no_others() -> None:
    score = tally([case(verdict("no_demand", "no_demand"))])
    assert list(json_of(score, score, {"threads": score})) == [
        "macro_f1_six",
        "macro_f1_all",
        "macro_f1_six_by_stretch",
        "macro_f1_all_by_stretch",
        "high_right_ratio",
        "unknown_ratio",
        "invented_ratio",
        "missed_ratio",
        "time_weighted_accuracy",
        "ledger_right_ratio",
        "ledger_worst_ratio",
        "by_cause",
        "by_stretch",
        "by_confidence",
        "confusion",
        "ledger_by_cause",
        "excused",
        "by_missing_source",
        "either_name",
    ]


def test_the_table_shows_every_cause_and_each_missing_source() -> None:
    score = tally([case(verdict("no_demand", "compiling"), sure=(("no_demand", "compiling"),))])
    text = render(score, score, {"threads": score}, "1 case")
    confusion = next(line for line in text.splitlines() if line.startswith("N no demand"))
    assert confusion.split()[3:] == [".", ".", ".", ".", ".", ".", ".", "1", ".", ".", ".", "."]
    assert any(line.startswith("threads") for line in text.splitlines())
