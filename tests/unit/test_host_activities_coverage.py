"""How much of the stacks the rules could name stands in the report."""

from __future__ import annotations

from typing import Any

import pytest

from gaptop.tui.panels.besides import besides
from gaptop.valleys import report, report_text
from gaptop.valleys.coverage import coverage_json
from tests.snapshots.scenes import scene_of, told

from .valley_streams import API, ENGINE, Stream, analyse


def coverage_of(stream: Stream) -> dict[str, Any]:
    timeline, assessment = analyse(stream.lines())
    made: dict[str, Any] = report.build(timeline, assessment, window=None)["coverage"]
    return made


def text_of(stream: Stream) -> str:
    timeline, assessment = analyse(stream.lines())
    return report_text.render(report.build(timeline, assessment, window=None), ascii=True, width=100)


def half_strange() -> Stream:
    """The engine: 2 s schedule, 2 s of code without a rule, 6 s without requests. The front end: 1 s http, 9 s idle."""
    stream = Stream(10)
    stream.stacks(ENGINE, "engine", lambda t: "schedule" if t < 2 else "crunch" if t < 4 else "await_requests")
    return stream.stacks(API, "api", lambda t: "http" if t < 1 else "idle")


def test_shares_of_the_time_that_threads_were_not_idle() -> None:
    made = coverage_of(half_strange())
    assert made["matched_ratio"] == pytest.approx(3 / 5, abs=0.001)
    assert made["critical_matched_ratio"] == pytest.approx(1 / 2, abs=0.001)
    engine, front = sorted(made["processes"], key=lambda row: str(row["role"] == "api"))
    assert (engine["pid"], engine["role"], engine["critical_thread"]) == (ENGINE, "engine", "engine")
    assert engine["seconds"] == pytest.approx(4, abs=0.01)
    assert engine["matched_ratio"] == engine["critical_matched_ratio"] == pytest.approx(0.5, abs=0.001)
    assert (front["role"], front["critical_thread"], front["critical_seconds"]) == ("api", None, 0.0)
    assert (front["matched_ratio"], front["critical_matched_ratio"]) == (1.0, None)
    assert made["unmatched"] == [{"function": "crunch", "file": "a.py", "seconds": pytest.approx(2, abs=0.05)}]


def test_only_the_window_counts() -> None:
    timeline, assessment = analyse(half_strange().lines())
    made = report.build(timeline, assessment, window=(2.0, 4.0))["coverage"]
    assert made["matched_ratio"] == 0.0
    made = report.build(timeline, assessment, window=(0.0, 2.0))["coverage"]
    assert (made["matched_ratio"], made["unmatched"]) == (1.0, [])


def test_what_was_not_seen_has_no_share() -> None:
    idle = Stream(4).stacks(ENGINE, "engine", lambda t: "await_requests")
    made = coverage_of(idle)
    assert (made["matched_ratio"], made["critical_matched_ratio"]) == (None, None)
    assert made["processes"][0]["seconds"] == 0.0
    assert coverage_of(Stream(4)) == {
        "matched_ratio": None,
        "critical_matched_ratio": None,
        "processes": [],
        "unmatched": [],
    }
    assert "rules name" not in text_of(idle)


def test_the_text_tells_it_and_what_is_missed() -> None:
    text = " ".join(text_of(half_strange()).split())
    assert "rules name 60% of what the threads did when not idle, 50% on those that the device waits for" in text
    assert "not named: crunch (a.py) 2.0 s; rules of your own can name them (--activities FILE)" in text
    known = " ".join(text_of(Stream(4).stacks(ENGINE, "engine", lambda t: "schedule")).split())
    assert "rules name 100%" in known
    assert "not named" not in known


def test_the_screen_tells_it_where_the_rules_miss_much() -> None:
    def rules(stream: Stream) -> str:
        return dict(besides(scene_of(analyse(stream.lines())[0], 90))).get("rules", "")

    assert "about 50% of what the threads did that the device waits for" in rules(half_strange())
    assert rules(Stream(10).stacks(ENGINE, "engine", lambda t: "crunch" if t < 0.9 else "schedule")) == ""
    assert rules(Stream(10).stacks(ENGINE, "engine", lambda t: "await_requests")) == ""
    assert rules(Stream(10).stacks(API, "api", lambda t: "crunch")) == ""


def test_without_rules_nothing_can_be_said_of_them() -> None:
    made = coverage_json(told(*half_strange().lines()), 0.0, 10.0)
    assert (made["matched_ratio"], made["critical_matched_ratio"], made["unmatched"]) == (None, None, [])
