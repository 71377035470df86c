"""The report: its keys, its numbers, and that the same stream always gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import Batch, Line, Self, Spans, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import report, report_text
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment

from .valley_streams import API, ENGINE, Stream, analyse, classify, stairs, total

VALLEY_KEYS = {
    *(
        "id",
        "kind",
        "server",
        "devices",
        "start_s",
        "end_s",
        "start_error_s",
        "end_error_s",
        "start_utc",
        "depth_ratio",
    ),
    *("idle_s", "idle_error_s", "confirmed", "tokens_lost", "cause", "detail", "confidence", "final", "score"),
    *("longest_gap_s", "agreeing"),
    *(
        "tokens_shared_with",
        "became_level",
        "runner_up",
        "segments",
        "evidence",
        "excluded",
        "unseen",
        "advice",
        "chain",
        "stacks",
    ),
}


def busy_day(seconds: float = 40.0) -> Stream:
    """Silence, then a full cache, then a garbage collection."""
    stream = Stream(seconds).device(
        stairs((0, 1.0), (8, 0), (10, 1.0), (16, 0.2), (18, 1.0), (25, 0.0), (26.5, 1.0)),
        power=stairs((0, 300), (8, 80), (10, 300)),
    )
    stream.metrics(
        {
            "sched.running": stairs((0, 8), (8, 0), (10, 8), (16, 3), (18, 8)),
            "sched.waiting": stairs((0, 0), (16, 5), (18, 0)),
            "kv.used": stairs((0, 0.4), (8, 0.0), (10, 0.5), (15.5, 0.98), (18, 0.6)),
            "sched.preemptions": total((0, 0), (17, 10), (18, 0)),
            "sched.finished": total((0, 1)),
            "tokens.decode": total((0, 800), (8, 0), (10, 800), (16, 160), (18, 800), (25, 0), (26.5, 800)),
            "tokens.prompt": total((0, 50)),
            "step.count": total((0, 100), (8, 0), (10, 100), (16, 60), (18, 100), (25, 0), (26.5, 100)),
        }
    )
    stream.stacks(API, "api", lambda t: "idle")
    # Waits and a collection: none of them moves from line to line.
    stream.stacks(
        ENGINE, "engine", lambda t: "gc" if 25 <= t < 26.5 else "poll" if 8 <= t < 10 else "device_sync", still=True
    )
    return stream


def as_bytes(lines: Iterable[Line]) -> bytes:
    timeline, assessment = analyse(lines)
    return json.dumps(report.build(timeline, assessment, window=None)).encode()


@cache
def analysed_day() -> tuple[Timeline, Assessment]:
    return analyse(busy_day().lines())


def test_report_has_the_promised_keys_and_no_zero_for_missing() -> None:
    timeline, assessment = analysed_day()
    made = report.build(timeline, assessment, window=None)
    assert {"schema", "gaptop", "source", "window", "health", "valleys", "plateaus", "ledger", "self"} <= set(made)
    assert made["schema"] == 1
    assert made["source"]["host"]["name"] == "testhost"
    assert made["source"]["servers"] == [
        {"url": "http://127.0.0.1:8000", "engine": "vllm", "version": "1", "model": "m", "pids": [API, ENGINE]}
    ]
    assert made["window"]["start_utc"] == "2026-01-01T00:00:00.000Z"
    assert made["window"]["seconds"] == 40.0
    assert made["self"]["cpu_seconds"] is None
    assert [item["cause"] for item in made["valleys"]] == ["no_demand", "cache_pressure", "host_starvation"]
    for valley in made["valleys"]:
        assert set(valley) == VALLEY_KEYS
        assert valley["final"] is True
        assert len(valley["chain"]) == 8
        assert valley["segments"][0]["start_s"] == valley["start_s"]
    assert {"source", "state", "coverage_ratio", "period_seconds", "age_seconds", "says"} <= set(made["health"][0])
    json.dumps(made, allow_nan=False)


def test_a_final_valley_has_the_heaviest_paths_of_the_critical_thread_only() -> None:
    timeline, assessment = analysed_day()
    for valley in report.build(timeline, assessment, window=None)["valleys"]:
        (thread,) = valley["stacks"]
        assert (thread["process"], thread["pid"], thread["role"], thread["tid"]) == ("engine", ENGINE, "engine", ENGINE)
        assert thread["seen_s"] + thread["unseen_s"] == pytest.approx(valley["end_s"] - valley["start_s"], abs=2e-3)
        assert thread["paths"][0]["frames"][0] == {"function": "main", "file": "m.py", "line": 1}
    told = [(path["activity"], path["frames"][-1]["function"]) for path in thread["paths"]]
    assert told[0] == ("gc", "gc")
    assert thread["paths"][0]["share_ratio"] > 0.9
    assert len(told) <= 5


def test_stacks_are_told_only_where_they_were_seen_and_once_nothing_changes_them() -> None:
    unseen = Stream(20).device(stairs((0, 1.0), (10, 0), (12, 1.0)))
    timeline, assessment = analyse(unseen.lines())
    assert [item["stacks"] for item in report.build(timeline, assessment, window=None)["valleys"]] == [[]]
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in LINES:
        timeline.apply(line)
        for valley in (analyst.apply(line) or Assessment(0.0)).valleys:
            assert bool(valley.stacks) is valley.final


def test_ledger_adds_up_to_the_time_that_was_measured() -> None:
    timeline, assessment = analysed_day()
    made = report.build(timeline, assessment, window=None)
    rows = [row for row in made["ledger"] if row["device"] == "GPU-a"]
    assert sum(row["device_seconds"] for row in rows) == pytest.approx(40.0, abs=0.3)
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1.0, abs=0.001)
    by_cause = {row["cause"]: row for row in rows}
    assert by_cause["no_demand"]["device_seconds"] == pytest.approx(2.0, abs=0.05)
    assert by_cause["no_demand"]["tokens_lost"] == 0.0
    assert by_cause["cache_pressure"]["device_seconds"] == pytest.approx(1.6, abs=0.05)
    assert by_cause["cache_pressure"]["tokens_lost"] == pytest.approx(1280, rel=0.15)
    assert by_cause["host_starvation"]["valleys"] == 1


def test_window_cuts_valleys_and_ledger() -> None:
    timeline, assessment = analysed_day()
    made = report.build(timeline, assessment, window=(9.0, 12.0))
    assert [item["cause"] for item in made["valleys"]] == ["no_demand"]
    by_cause = {row["cause"]: row["device_seconds"] for row in made["ledger"]}
    assert by_cause["no_demand"] == pytest.approx(1.0, abs=0.05)
    assert sum(by_cause.values()) == pytest.approx(3.0, abs=0.05)
    assert made["window"]["seconds"] == 3.0


def test_empty_stream_gives_a_report_that_says_nothing_was_measured() -> None:
    timeline, assessment = analyse([])
    made = report.build(timeline, assessment, window=None)
    assert made["valleys"] == []
    assert made["source"]["host"] is None
    assert made["window"]["start_utc"] is None
    assert made["sentence"].startswith("nothing measured yet")


def test_collector_that_never_had_a_source_is_in_the_health() -> None:
    says = "NVML is not installed, so no GPU is seen; install the NVIDIA driver."
    timeline, assessment = analyse(Stream(2).health(1.0, "devices.nvml", "absent", says).lines())
    (item,) = report.build(timeline, assessment, window=None)["health"]
    assert (item["source"], item["state"], item["says"]) == ("devices.nvml", "absent", says)
    assert item["coverage_ratio"] is None
    assert "NVML is not installed" in assessment.sentence
    assert assessment.hints == (says,)


@pytest.mark.parametrize(("state", "listed"), [("ended", False), ("ok", False), ("failing", True)])
def test_a_collector_is_told_by_its_sources_unless_it_fails(state: str, listed: bool) -> None:
    stream = Stream(4).metrics({"sched.running": stairs((0, 4))})
    stream.health(1.0, "engines.vllm", state, "" if state != "failing" else "it fails.")
    timeline, assessment = analyse(stream.lines())
    made = report.build(timeline, assessment, window=None)
    assert ("engines.vllm" in {item["source"] for item in made["health"]}) is listed
    assert ("engines.vllm" in report_text.render(made, ascii=True, width=100)) is listed


def test_own_cost_comes_from_the_newest_self_line() -> None:
    lines = [*Stream(4).lines(), Self(4.0, 0.2, 30_000_000, 0.1)]
    timeline, assessment = analyse(lines)
    made = report.build(timeline, assessment, window=None)["self"]
    assert made == {"cpu_seconds": 0.2, "rss_bytes": 30_000_000, "py_spy_cpu_seconds": 0.1, "cpu_ratio": 0.05}


LINES = busy_day(30.0).lines()
WHOLE = as_bytes(LINES)


def test_live_equals_replay() -> None:
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in LINES:
        timeline.apply(line)
        analyst.apply(line)
        # What a screen asks in between must not change what is found.
        for item in timeline.ids("device.busy"):
            timeline.columns(item, 0.0, timeline.now, 40)
    assert json.dumps(report.build(timeline, analyst.finish(), window=None)).encode() == WHOLE


def split(line: Line, sizes: list[int]) -> list[Line]:
    """One batch as several of the given sizes (used in turn)."""
    if not isinstance(line, Batch):
        return [line]
    parts: list[Line] = []
    first = turn = 0
    while first < len(line.t):
        size = sizes[turn % len(sizes)]
        turn += 1
        part = slice(first, first + size)
        parts.append(Batch(line.src, line.t[part], {key: column[part] for key, column in line.values.items()}))
        first += size
    return parts


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_batch_sizes_do_not_change_the_report(sizes: list[int]) -> None:
    assert as_bytes(part for line in LINES for part in split(line, sizes)) == WHOLE


@pytest.mark.parametrize("lines", [5, 15])
def test_late_delivery_moves_no_valley(lines: int) -> None:
    """Device readings that come up to 1.5 s later give the same final valleys."""
    late: list[tuple[int, int, Line]] = []
    for index, line in enumerate(LINES):
        delayed = isinstance(line, Batch | Watermark) and line.src.startswith("nvml/")
        late.append((index + (lines if delayed else 0), index, line))
    reordered = [line for _, _, line in sorted(late, key=lambda item: item[:2])]
    _, assessment = analyse(reordered)
    got = [(item.id, item.verdict.cause, round(item.idle_s or 0.0, 4)) for item in assessment.valleys]
    assert got == [(item["id"], item["cause"], item["idle_s"]) for item in json.loads(WHOLE)["valleys"]]


def test_a_verdict_is_provisional_until_the_slowest_source_has_passed() -> None:
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    seen: dict[str, list[tuple[float, bool]]] = {}
    threads_at = 0.0
    for line in busy_day().lines():
        timeline.apply(line)
        if isinstance(line, Spans):
            threads_at = line.covered[1]
        state = analyst.apply(line)
        for valley in state.valleys if state is not None else ():
            seen.setdefault(valley.id, []).append((timeline.now, valley.final))
            if valley.final and valley.end_s is not None:
                assert threads_at >= valley.end_s + 1.9
    assert len(seen) == 3
    for first, *rest in seen.values():
        assert first[1] is False
        assert rest[-1][1] is True
    assert seen["u8.00"][0][0] <= 9.0


def test_metrics_of_two_servers_are_not_mixed() -> None:
    stream = Stream(20).device(stairs((0, 1.0), (10, 0), (12, 1.0)))
    curves = {
        "sched.running": stairs((0, 8), (10, 0), (12, 8)),
        "sched.waiting": stairs((0, 0)),
        "tokens.decode": total((0, 800), (10, 0), (12, 800)),
    }
    stream.metrics(curves)
    other = {"sched.running": stairs((0, 5)), "sched.waiting": stairs((0, 5)), "tokens.decode": total((0, 10))}
    stream.metrics(other, source="metrics/http://127.0.0.1:9000", pids=[9])
    (valley,) = (item for item in analyse(stream.lines())[1].valleys if item.kind == "utilisation")
    assert valley.verdict.cause == "no_demand"
