"""Causes that look alike on their main number, and the second number that tells them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Frames, Header, Source, Spans, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import ThreadId
from gaptop.valleys.causes.admission_stall import admission_stall
from gaptop.valleys.causes.prefill_interference import prefill_interference
from gaptop.valleys.causes.rule import LIKELY, POSSIBLE, STRONG, WEAK
from gaptop.valleys.causes.stalled_busy import stalled_busy
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.gather_host import thread_views
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import scopes


def gauge(mean: float, before: float | None = None) -> Gauge:
    return Gauge(mean, mean, mean, mean, mean, before)


CROWDED = Evidence(
    "progress", "vllm", 10.0, 17.0, busy=1.0, busy_level=1.0, running=gauge(26.0, 30.0), waiting=gauge(4.5),
    limit=31.0, kv=gauge(0.5), decode_rate=240.0, decode_before=900.0,
)  # fmt: skip
"""Some requests are kept waiting under the limit; the device is busy, and decoding at 27 % of the usual."""


def test_who_runs_at_a_third_of_the_usual_speed_is_not_slowed_by_who_is_kept_out() -> None:
    found = admission_stall(CROWDED)
    assert found.score <= POSSIBLE
    assert "slows nobody" in found.against[0]
    fewer = replace(CROWDED, running=Gauge(8.0, 6.0, 9.0, 6.0, 9.0, 30.0))
    assert admission_stall(fewer).score == LIKELY
    assert admission_stall(fewer).against == ()


PROMPTS = replace(CROWDED, prompt_flow=5000.0, prompt_before=500.0, prompt_settled=True)
"""Five times as many prompt tokens as decode tokens otherwise."""


@pytest.mark.parametrize(("power", "score"), [(None, STRONG), (1.2, STRONG), (0.7, STRONG), (0.45, 0.0)])
def test_a_prefill_draws_more_power_than_decoding_and_never_much_less(power: float | None, score: float) -> None:
    assert prefill_interference(replace(PROMPTS, power_ratio=power)).score == score


def test_a_prefill_explains_no_idle_time_however_the_edges_mix() -> None:
    half = replace(PROMPTS, busy=0.54)
    assert prefill_interference(half).score == STRONG
    dip = prefill_interference(replace(half, kind="utilisation"))
    assert dip.score <= WEAK
    assert dip.against


FROZEN = replace(CROWDED, decode_rate=0.0, prompt_rate=0.0, prompt_flow=0.0, prompt_settled=True)


@pytest.mark.parametrize(("power", "named"), [(0.3, True), (0.95, True), (1.05, True), (1.3, False)])
def test_a_wedge_never_draws_more_than_work(power: float, named: bool) -> None:
    found = stalled_busy(replace(FROZEN, power_ratio=power))
    assert (found.score >= LIKELY) is named
    assert found.score == WEAK or named


@pytest.mark.parametrize(("length", "seen"), [(0.3, False), (0.5, True)])
def test_a_stretch_shorter_than_its_edges_are_unsure_has_no_stacks(length: float, seen: bool) -> None:
    """A recorder at 12 samples a second: one of them would be the whole of a dip."""
    timeline = Timeline(lambda frames: "device_sync")
    thread = {"tid": 7, "name": "MainThread"}
    process = {"pid": 7, "role": "engine", "name": "engine", "critical_tid": 7, "threads": [thread]}
    for line in (
        Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00.000Z", 0),
        Source(
            0.0, "metrics/http://a", "engines.vllm", "server", {"url": "http://a", "pids": [7]}, ("sched.running",), 0.5
        ),
        Source(0.0, "threads/7", "host.threads_pyspy", "process", process, (), 4.0, error=0.2),
        Frames("threads/7", {"1": [["wait", "a.py", 1]]}),
        Spans("threads/7", (0.0, 20.0), (7,), (0.0,), (20.0,), (1,)),
        Watermark("threads/7", 20.0),
        Tick(20.0),
    ):
        timeline.apply(line)
    assert timeline.shares(ThreadId("threads/7", 7), 10.0, 10.0 + length)
    (scope,) = scopes(timeline)
    views = thread_views(timeline, scope, 10.0, 10.0 + length, Reference(timeline, ((5.0, 10.0),)))
    assert [view.activities for view in views] == ([{"device_sync": 1.0}] if seen else [])
