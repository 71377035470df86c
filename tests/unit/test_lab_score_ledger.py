"""The score of a small example worked out by hand: the ledger by cause, stretches, calibration, time, the table."""

from __future__ import annotations

import pytest

from gaptop.lab.score.as_json import json_of
from gaptop.lab.score.booking import Booked, joined, matrix, segments
from gaptop.lab.score.match import Judged
from gaptop.lab.score.seen import Piece
from gaptop.lab.score.table import TARGETS, render
from gaptop.lab.score.tally import CaseScore, tally
from gaptop.valleys.model import Cause, Segment

from .test_lab_score_match import valley

WHOLE = [(0.0, 30.0)]


def test_each_idle_second_is_booked_under_the_segment_over_it() -> None:
    pieces = [Piece(10.0, 11.0, "compiling"), Piece(11.0, 13.0, "no_demand"), Piece(20.0, 20.1, "no_demand")]
    parts = [Segment(10.0, 11.5, "compiling"), Segment(11.5, 12.8, "no_demand")]
    found = matrix(pieces, WHOLE, parts, [(10.0, 13.0)])
    assert found == pytest.approx(
        {
            ("compiling", "compiling"): 1.0,
            ("compiling", "spread_idle"): 0.0,
            ("no_demand", "compiling"): 0.5,
            ("no_demand", "no_demand"): 1.3,
            # The stretch must be seen, and its end was not; the short gap need not be.
            ("no_demand", "missed"): 0.2,
            ("no_demand", "spread_idle"): 0.1,
        }
    )


def test_only_what_windows_cover_is_looked_at() -> None:
    pieces = [Piece(10.0, 14.0, "no_demand")]
    found = matrix(pieces, [(0.0, 11.0), (13.0, 30.0)], [Segment(10.0, 14.0, "no_demand")], [(10.0, 14.0)])
    assert found["no_demand", "no_demand"] == pytest.approx(2.0)
    assert found["no_demand", "spread_idle"] == 0.0
    assert joined([(1.0, 1.2), (0.8, 1.0), (2.0, 2.2)]) == [(0.8, 1.2), (2.0, 2.2)]


def test_where_valleys_overlap_the_first_one_keeps_the_time() -> None:
    found = segments([valley(12.0, 15.0, "compiling"), valley(10.0, 13.0, "no_demand")])
    assert found == [Segment(10.0, 13.0, "no_demand"), Segment(13.0, 15.0, "compiling")]


def said(true: Cause | None, name: Cause, confidence: str, right: float, whole: float) -> Judged:
    return Judged("u1", "utilisation", 0.0, whole, name, "", confidence, true, (), {}, right, whole)


def example() -> CaseScore:
    """Five valleys, one of them invented; five stretches, one of them missed; one device."""
    return CaseScore(
        seed=7,
        judged=(
            said("no_demand", "no_demand", "high", 3.0, 4.0),
            said("no_demand", "no_demand", "high", 2.0, 2.0),
            said("compiling", "no_demand", "medium", 0.0, 2.0),
            said("compiling", "unknown", "low", 0.0, 2.0),
            said(None, "compiling", "high", 0.0, 0.0),
        ),
        sure=(
            ("no_demand", "no_demand"),
            ("no_demand", "no_demand"),
            ("no_demand", None),
            ("compiling", "no_demand"),
            ("compiling", "unknown"),
        ),
        excused=(("no_demand", "too short"), ("compiling", "too short"), ("compiling", "at the edge")),
        booked=(
            Booked(
                true_s=10.0,
                ledger_s=10.5,
                seen_s=40.0,
                rows={"no_demand": 8.2, "spread_idle": 2.3},
                matrix={
                    ("no_demand", "no_demand"): 5.0,
                    ("no_demand", "missed"): 1.0,
                    ("compiling", "no_demand"): 2.0,
                    ("compiling", "spread_idle"): 2.0,
                },
            ),
        ),
        seconds=0.1,
    )


def test_the_numbers_of_an_example_are_those_worked_out_by_hand() -> None:
    score = tally([example()])
    # By valley: no_demand 2 true, 3 said, 2 right; compiling 2 true, none said of those that exist.
    demand, compiling = score.by_cause["no_demand"], score.by_cause["compiling"]
    assert (demand.precision, demand.recall, demand.f1) == pytest.approx((2 / 3, 1.0, 4 / 5))
    assert (compiling.precision, compiling.recall, compiling.f1) == (None, 0.0, 0.0)
    # By stretch: a missed one takes from the recall, an invented valley from the precision.
    demand, compiling = score.by_stretch["no_demand"], score.by_stretch["compiling"]
    assert (demand.precision, demand.recall, demand.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert (compiling.precision, compiling.recall, compiling.f1) == (0.0, 0.0, 0.0)
    assert score.numbers() == pytest.approx(
        {
            "macro_f1_six": 0.8,
            "macro_f1_all": 0.4,
            "macro_f1_six_by_stretch": round(2 / 3, 4),
            "macro_f1_all_by_stretch": round(1 / 3, 4),
            "high_right_ratio": round(2 / 3, 4),
            "unknown_ratio": 0.25,
            "invented_ratio": 0.2,
            "missed_ratio": 0.2,
            "time_weighted_accuracy": 0.5,
            "ledger_right_ratio": 0.625,
            "ledger_worst_ratio": 0.0125,
        }
    )


def test_the_json_of_an_example_holds_what_the_numbers_are_made_of() -> None:
    score = tally([example()])
    body = json_of(score, score, {})
    assert body["by_confidence"] == {
        "high": {"right": 2, "of": 3, "right_ratio": 0.6667},
        "medium": {"right": 0, "of": 1, "right_ratio": 0.0},
        "low": {"right": 0, "of": 0, "right_ratio": None},
    }
    assert body["confusion"]["compiling"] == {"no_demand": 1, "unknown": 1}
    assert body["ledger_by_cause"]["no_demand"] == {
        "true_s": 6.0,
        "ledger_s": 8.2,
        "booked_s": {"no_demand": 5.0, "missed": 1.0},
    }
    assert body["excused"]["too short"] == 2
    assert body["excused"]["too shallow"] == 0


def test_the_table_of_an_example_marks_what_misses_its_target() -> None:
    score = tally([example()])
    lines = render(score, score, {}, "1 case").splitlines()
    assert "  macro F1, the six                  0.800  >= 0.95   MISSED" in lines
    assert "  missed                             0.200" in lines
    assert "  right at medium confidence         0.000  of 1" in lines
    assert "True stretches that need not be seen: 3 (2 too short, 1 at the edge)" in lines
    (booked,) = (line.split() for line in lines if line.startswith("N no demand") and "6.0" in line)
    assert (booked[3], booked[-4], booked[-2:]) == ("5.0", "1.0", ["6.0", "8.2"])
    asked = sum(bool(target.asked) for target in TARGETS.values())
    assert lines[-1].startswith(f"{asked} of {asked} targets are MISSED: macro_f1_six 0.800 (asked: >= 0.95), ")
    # Nothing to measure is no success, and no failure.
    empty = tally([])
    assert render(empty, empty, {}, "").splitlines()[-1].startswith("No target could be looked at")


def test_a_score_that_misses_nothing_says_so() -> None:
    fine = CaseScore(7, (said("no_demand", "no_demand", "high", 1.0, 1.0),), (("no_demand", "no_demand"),), (), (), 0.1)
    score = tally([fine])
    assert render(score, score, {}, "").splitlines()[-1] == "All 7 targets that could be looked at are met."
