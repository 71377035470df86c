"""The Perfetto trace: slices of a track nest, counters tell what was measured, what was not seen is said."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gaptop.export.labels import ThreadLabel
from gaptop.export.perfetto import perfetto
from gaptop.recording.reader import open_stream
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment

TOUR = Path(__file__).parent.parent / "data" / "lab" / "tour.gaptop"


@pytest.fixture(scope="module")
def tour() -> tuple[Timeline, Assessment]:
    timeline = Timeline()
    analyst = Analyst(timeline)
    for line in open_stream(TOUR):
        timeline.apply(line)
        analyst.apply(line)
    return timeline, analyst.finish()


def trace(tour: tuple[Timeline, Assessment], start: float, end: float) -> dict[str, Any]:
    timeline, assessment = tour
    threads = [(ThreadLabel("process", 7, "thread", item.tid), item) for item in timeline.threads()]
    made = perfetto(timeline, assessment.valleys, threads, start, end, "gaptop 1")
    loaded: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    return loaded


def slices(made: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in made["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


@pytest.mark.parametrize(("start", "end"), [(0.0, 1e6), (5.0, 12.5), (9.99, 10.01)])
def test_every_event_has_what_the_format_asks_for_and_lies_in_the_range(
    tour: tuple[Timeline, Assessment], start: float, end: float
) -> None:
    made = trace(tour, start, end)
    assert {"X", "C", "M"} <= {event["ph"] for event in made["traceEvents"]}
    for event in made["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            continue
        assert start * 1e6 - 1 <= event["ts"] <= end * 1e6 + 1
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] + event["dur"] <= end * 1e6 + 1


def test_slices_of_a_track_nest(tour: tuple[Timeline, Assessment]) -> None:
    for track in slices(trace(tour, 0.0, 1e6)).values():
        open_until: list[float] = []
        for event in sorted(track, key=lambda item: (item["ts"], -item["dur"])):
            while open_until and open_until[-1] <= event["ts"] + 1e-2:
                open_until.pop()
            ends = event["ts"] + event["dur"]
            assert not open_until or ends <= open_until[-1] + 1e-2
            open_until.append(ends)


def test_a_thread_s_frames_take_the_time_that_it_was_seen(tour: tuple[Timeline, Assessment]) -> None:
    timeline, _ = tour
    thread = timeline.threads()[0]
    made = slices(trace(tour, 5.0, 12.0))[7, thread.tid]
    seen = sum(min(span.end, 12.0) - max(span.start, 5.0) for span in timeline.spans(thread, 5.0, 12.0))
    outermost, until = 0.0, -1.0
    for event in sorted(made, key=lambda item: (item["ts"], -item["dur"])):
        if event["ts"] >= until - 1e-2:
            outermost += event["dur"]
            until = event["ts"] + event["dur"]
    assert outermost / 1e6 == pytest.approx(seen, abs=0.01)


def test_counters_are_what_the_timeline_holds_and_every_valley_brings_its_argument(
    tour: tuple[Timeline, Assessment],
) -> None:
    timeline, assessment = tour
    made = trace(tour, 0.0, 1e6)
    busy = [event for event in made["traceEvents"] if event["ph"] == "C" and event["name"].startswith("device.busy")]
    (one,) = timeline.ids("device.busy")
    held = set(timeline.steps(one, 0.0, 1e6).value.tolist())
    assert {event["args"]["value"] for event in busy} == held
    assert all(first["ts"] < second["ts"] for first, second in pairwise(busy))
    argued = {
        event["args"]["id"]: event["args"] for event in made["traceEvents"] if "confidence" in event.get("args", {})
    }
    assert set(argued) == {valley.id for valley in assessment.valleys}
    for valley in assessment.valleys:
        assert len(argued[valley.id]["for"]) == len(valley.verdict.evidence)
        assert argued[valley.id]["try"] == valley.verdict.advice
