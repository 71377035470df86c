"""A recorder's chrometrace becomes spans on our clock: complete, in order, cut where the recorder before it ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gaptop_collectors.collector import StackSpan
from gaptop_collectors.host import pyspy_recorder, pyspy_trace
from gaptop_collectors.host.pyspy_trace import BadTrace, StackTable

MS = 1_000_000
LOG = """[2026-03-01T00:00:10.000500000Z INFO  py_spy::config] config Config {
        blocking: NonBlocking,
[2026-03-01T00:00:10.001100000Z INFO  py_spy::python_process_info] Got virtual memory maps from pid 7:
"""
WALL = 1_772_323_200_000_000_000  # 2026-03-01T00:00:00Z in ns, while our clock shows 0


def event(phase: str, name: str, ms: int, thread: int = 1, line: int = 3) -> dict[str, Any]:
    arguments = {"filename": "/srv/app.py", "line": line}
    return {"ph": phase, "name": name, "ts": ms * 1000, "tid": 0x7F00 + thread, "pid": 7, "args": arguments}


def two_phases() -> list[dict[str, Any]]:
    """Thread 70: ``work`` until 100 ms, ``rest`` until 300 ms; thread 71 sleeps all the time."""
    return [
        event("B", "thread (70): MainThread", 10),
        event("B", "main", 10),
        event("B", "work", 10),
        event("B", "thread (71): idler", 10, thread=2),
        event("B", "sleep", 10, thread=2),
        event("E", "work", 100),
        event("B", "rest", 100),
        event("E", "rest", 300),
        event("E", "main", 300),
        event("E", "thread (70): MainThread", 300),
        event("E", "sleep", 300, thread=2),
        event("E", "thread (71): idler", 300, thread=2),
    ]


def plain(spans: list[StackSpan]) -> list[tuple[int, float, float, str]]:
    return [(s.tid, s.start_ns / MS, s.end_ns / MS, ">".join(f.function for f in s.stack)) for s in spans]


def test_spans_cover_each_thread_without_gaps() -> None:
    trace = pyspy_trace.read_trace(two_phases(), 1000 * MS, 0, StackTable())
    assert trace is not None
    assert trace.covered == (1010 * MS, 1300 * MS)
    assert plain(trace.spans) == [
        (70, 1010, 1100, "main>work"),
        (71, 1010, 1300, "sleep"),
        (70, 1100, 1300, "main>rest"),
    ]
    assert trace.threads == {70: "MainThread", 71: "idler"}
    assert trace.spans[0].stack[0].line == 3


def test_the_detection_delay_is_taken_off_everywhere() -> None:
    trace = pyspy_trace.read_trace(two_phases(), 1000 * MS, 7 * MS, StackTable())
    assert trace is not None
    assert trace.covered == (1003 * MS, 1293 * MS)
    assert plain(trace.spans)[0] == (70, 1003, 1093, "main>work")


def test_what_the_recorder_before_has_covered_is_not_delivered_twice() -> None:
    trace = pyspy_trace.read_trace(two_phases(), 1000 * MS, 0, StackTable(), not_before_ns=1120 * MS)
    assert trace is not None
    assert trace.covered == (1120 * MS, 1300 * MS)
    assert sorted(plain(trace.spans)) == [(70, 1120, 1300, "main>rest"), (71, 1120, 1300, "sleep")]


def test_an_ordinary_sampling_gap_at_a_seam_is_bridged_and_a_longer_one_is_not() -> None:
    joined = pyspy_trace.read_trace(two_phases(), 1000 * MS, 0, StackTable(), not_before_ns=990 * MS, join_ns=30 * MS)
    assert joined is not None
    assert joined.covered[0] == 990 * MS
    assert plain(joined.spans)[0] == (70, 990, 1100, "main>work")
    apart = pyspy_trace.read_trace(two_phases(), 1000 * MS, 0, StackTable(), not_before_ns=900 * MS, join_ns=30 * MS)
    assert apart is not None
    assert apart.covered[0] == 1010 * MS


def test_a_thread_that_has_ended_keeps_no_open_stack() -> None:
    trace = pyspy_trace.read_trace(two_phases(), 1000 * MS, 0, StackTable(), alive={71})
    assert trace is not None
    assert plain(trace.spans) == [(70, 1010, 1100, "main>work"), (71, 1010, 1300, "sleep")]


def test_a_pthread_id_that_is_used_again_is_another_thread() -> None:
    events = [
        event("B", "thread (70): a", 0),
        event("B", "work", 0),
        event("E", "work", 50),
        event("E", "thread (70): a", 50),
        event("B", "thread (99): b", 50),
        event("B", "work", 50),
        event("E", "work", 80),
        event("E", "thread (99): b", 80),
    ]
    trace = pyspy_trace.read_trace(events, 0, 0, StackTable())
    assert trace is not None
    assert plain(trace.spans) == [(70, 0, 50, "work"), (99, 50, 80, "work")]


def test_equal_stacks_are_one_object() -> None:
    table = StackTable()
    first = pyspy_trace.read_trace(two_phases(), 0, 0, table)
    second = pyspy_trace.read_trace(two_phases(), 500 * MS, 0, table)
    assert first is not None
    assert second is not None
    assert first.spans[0].stack is second.spans[0].stack


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[3]", b"\xff\xfe"])
def test_what_is_no_trace_is_refused(body: bytes) -> None:
    with pytest.raises(BadTrace):
        pyspy_trace.parse_events(body)


@pytest.mark.parametrize(
    "broken",
    [{"ph": "B"}, {**event("B", "x", 1), "ts": "soon"}, event("B", "process 7", 1), {**event("B", "x", 1), "args": 3}],
)
def test_an_event_that_cannot_be_read_is_refused(broken: dict[str, Any]) -> None:
    events = json.loads(
        json.dumps([event("B", "thread (70): a", 0), event("B", "work", 0), broken, event("E", "x", 9)])
    )
    if broken.get("name") == "process 7":
        events = [broken, event("E", "process 7", 9)]
    with pytest.raises(BadTrace):
        pyspy_trace.read_trace(events, 0, 0, StackTable())


def test_an_empty_trace_tells_nothing() -> None:
    assert pyspy_trace.read_trace([], 0, 0, StackTable()) is None


def test_the_log_brackets_time_zero() -> None:
    assert pyspy_trace.bracket(LOG, WALL) == (10_000_500_000, 10_001_100_000)
    assert pyspy_trace.bracket("Error: something else", WALL) is None


@pytest.mark.parametrize(
    ("written_ms", "asked_ms", "expected_ms", "error_ms"),
    [
        (310.6, None, 10.6, 0.1),  # inside the bracket: it cannot be later, since the last event came before it
        (395.0, None, 11.1, 0.6),  # we were late to read: held at the bracket
        (395.0, 310.9, 11.1, 0.2),  # but the last event came after we asked for the end
        (395.0, 290.0, 11.1, 0.6),  # asked long before: tells nothing new
        (300.0, None, 10.5, 0.6),  # cannot be
    ],
)
def test_time_zero_stays_inside_what_is_sure(
    written_ms: float, asked_ms: float | None, expected_ms: float, error_ms: float
) -> None:
    log = (round(10.5 * MS), round(11.1 * MS))
    asked = None if asked_ms is None else round(asked_ms * MS)
    origin = pyspy_trace.find_origin(300_000, asked, round(written_ms * MS), 9 * MS, 30 * MS, log)
    assert origin.at_ns == round(expected_ms * MS)
    assert origin.error_ns == round(error_ms * MS)


def test_a_log_that_contradicts_what_we_saw_is_not_believed() -> None:
    origin = pyspy_trace.find_origin(300_000, None, 320 * MS, 9 * MS, 30 * MS, (900 * MS, 901 * MS))
    assert origin.at_ns == 20 * MS
    assert origin.error_ns == 11 * MS


def test_the_offset_of_the_clocks_is_right_although_we_were_kept_off_our_core(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    pauses = iter([0, 13 * MS, 0, 0, 13 * MS, 0, 2 * MS, 0, 0, 0, 0, 0, 5 * MS, 5 * MS, 0])

    def monotonic() -> int:
        now[0] += next(pauses)
        return now[0]

    monkeypatch.setattr("time.monotonic_ns", monotonic)
    monkeypatch.setattr("time.time_ns", lambda: monotonic() + WALL)
    assert pyspy_recorder._wall_offset() == WALL
