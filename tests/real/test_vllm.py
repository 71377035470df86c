"""gaptop beside a real vLLM: what it says must be what the server, its client and the kernel know to be true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaptop.recording.lines import Batch, Event
from gaptop.recording.reader import open_stream
from gaptop.recording.snapshot import write_snapshot
from gaptop.timeline.timeline import Timeline
from gaptop_collectors.host.activities import load_activities
from tests.real.conftest import SEQUENCE_CAP, Watched
from tests.real.watch import report

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def series(path: Path, key: str) -> list[float]:
    """Every value of a series of a recording, in order."""
    values: list[float] = []
    for line in open_stream(path):
        if isinstance(line, Batch):
            values += [value for value in line.values.get(key, ()) if value is not None]
    return values


def last_time(watched: Watched, key: str, before: float) -> float:
    """When a series was last above zero before a CLOCK_MONOTONIC time (seconds of the stream)."""
    moment = 0.0
    for line in open_stream(watched.path):
        if isinstance(line, Batch):
            for t, value in zip(line.t, line.values.get(key, ()), strict=False):
                if value and t + watched.start_monotonic < before:
                    moment = t
    return moment


def own_metrics(body: str) -> Mapping[str, float]:
    """The server's own totals, summed over labels, as the reference parser reads them."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def test_the_server_is_found_without_being_named(watched_vllm: Watched) -> None:
    (server,) = watched_vllm.report["source"]["servers"]
    assert server["engine"] == "vllm"
    assert server["version"].startswith("0.32.0")
    assert server["model"] == "random"
    assert set(watched_vllm.pids) <= set(server["pids"])


def test_counters_end_where_the_servers_own_end(watched_vllm: Watched) -> None:
    own = own_metrics(watched_vllm.metrics)
    for key, name in {
        "tokens.decode": "vllm:generation_tokens_total",
        "step.count": "vllm:iteration_tokens_total_count",
        "sched.preemptions": "vllm:num_preemptions_total",
        "sched.running": "vllm:num_requests_running",
        "sched.waiting": "vllm:num_requests_waiting",
    }.items():
        assert series(watched_vllm.path, key)[-1] == own[name], key
    # Prompt tokens are those that were computed: what the prefix cache held cost the device nothing.
    computed = own["vllm:prompt_tokens_total"] - own["vllm:prompt_tokens_cached_total"]
    assert series(watched_vllm.path, "tokens.prompt")[-1] == computed


def test_the_client_got_what_gaptop_counted(watched_vllm: Watched) -> None:
    decoded = series(watched_vllm.path, "tokens.decode")
    # A chunk of the stream is a token, except where two steps fall into one message.
    assert decoded[-1] - decoded[0] == pytest.approx(watched_vllm.drive.tokens, rel=0.05)


def test_silence_is_no_demand(watched_vllm: Watched) -> None:
    found = watched_vllm.during("silence")
    assert found
    assert {valley["cause"] for valley in found} == {"no_demand"}
    assert all(not valley["tokens_lost"] for valley in found)


def test_requests_above_the_cap_wait_and_are_never_no_demand(watched_vllm: Watched) -> None:
    assert max(series(watched_vllm.path, "sched.running")) == SEQUENCE_CAP
    assert max(series(watched_vllm.path, "sched.waiting")) >= 30 - SEQUENCE_CAP - 4
    crowded = last_time(watched_vllm, "sched.waiting", watched_vllm.drive.phase("cap").end)
    inside = [valley for valley in watched_vllm.during("cap") if valley["start_s"] < crowded]
    assert "no_demand" not in {valley["cause"] for valley in inside}


def test_a_full_cache_is_cache_pressure(watched_vllm: Watched) -> None:
    assert max(series(watched_vllm.path, "kv.used")) >= 0.95
    assert series(watched_vllm.path, "sched.preemptions")[-1] > 0
    # Later, as the last clients finish, fewer and fewer ask for anything, and that is another matter.
    crowded = last_time(watched_vllm, "sched.waiting", watched_vllm.drive.phase("full").end)
    causes = [valley["cause"] for valley in watched_vllm.during("full") if valley["start_s"] < crowded]
    assert "cache_pressure" in causes
    assert "no_demand" not in causes


def test_a_long_prompt_is_prefill_interference(watched_vllm: Watched) -> None:
    assert "prefill_interference" in {valley["cause"] for valley in watched_vllm.during("long")}


def test_a_stopped_front_end_is_host_starvation_and_said_to_be_stopped(watched_vllm: Watched) -> None:
    found = watched_vllm.during("stopped")
    assert found
    assert {valley["cause"] for valley in found} == {"host_starvation"}
    (longest, *_) = sorted(found, key=lambda valley: valley["start_s"] - (valley["end_s"] or math.inf))
    assert longest["detail"] == "front end stopped"
    assert "host.stopped" in {fact["signal"] for fact in longest["evidence"]}
    stopped = watched_vllm.drive.phase("stopped").start - watched_vllm.start_monotonic
    events = [line for line in open_stream(watched_vllm.path) if isinstance(line, Event)]
    assert any(event.what == "process_stopped" and 0 < event.t - stopped < 2.5 for event in events)


def test_engine_threads_show_activities(watched_vllm: Watched) -> None:
    timeline = Timeline(load_activities().classify)
    for line in open_stream(watched_vllm.path):
        timeline.apply(line)
    engine = watched_vllm.pids[1]
    (main,) = (thread for thread in timeline.threads(f"threads/{engine}") if thread.tid == engine)
    steady = watched_vllm.drive.phase("steady")
    shares = timeline.shares(
        main, steady.start - watched_vllm.start_monotonic, steady.end - watched_vllm.start_monotonic
    )
    # On the CPU the forward pass itself runs in this thread, so launching is most of what it does.
    assert shares.get("launch", 0.0) > 0.3 * sum(shares.values())
    silence = watched_vllm.drive.phase("silence")
    resting = timeline.shares(
        main, silence.start + 1 - watched_vllm.start_monotonic, silence.end - watched_vllm.start_monotonic
    )
    assert resting.get("await_requests", 0.0) > 0.8 * sum(resting.values())


def test_the_engine_shows_as_a_gpu_through_the_real_binding(watched_vllm: Watched) -> None:
    devices = watched_vllm.report["source"]["devices"]
    assert [device["kind"] for device in devices] == ["gpu"]
    busy = series(watched_vllm.path, "device.busy")
    assert min(busy) < 0.1
    assert max(busy) > 0.9


def test_a_snapshot_reopens_with_the_same_valleys(watched_vllm: Watched, tmp_path: Path) -> None:
    long = watched_vllm.drive.phase("long")
    silence = watched_vllm.drive.phase("silence")
    start, end = silence.start - 2 - watched_vllm.start_monotonic, long.end - watched_vllm.start_monotonic
    inside = [v for v in watched_vllm.report["valleys"] if v["start_s"] >= start and (v["end_s"] or end + 1) <= end]
    written = write_snapshot(open_stream(watched_vllm.path), start, end, inside, tmp_path / "snapshot.gaptop")
    again = {(v["kind"], v["start_s"], v["end_s"]): v for v in report(written)["valleys"]}
    assert inside
    for valley in inside:
        twin = again[valley["kind"], valley["start_s"], valley["end_s"]]
        assert twin["cause"] == valley["cause"]
        assert twin["evidence"] == valley["evidence"]
