"""Causes that look alike on their main number, and the second number that tells them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gaptop.recording.lines import Frames, Header, Source, Spans, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import ThreadId
from gaptop.valleys.causes.admission_stall import admission_stall
from gaptop.valleys.causes.cache_pressure import cache_pressure
from gaptop.valleys.causes.host_starvation import host_starvation
from gaptop.valleys.causes.no_demand import no_demand
from gaptop.valleys.causes.prefill_interference import prefill_interference
from gaptop.valleys.causes.rule import CERTAIN, DOUBTED, LIKELY, POSSIBLE, SECONDED, STRONG, WEAK
from gaptop.valleys.causes.stalled_busy import stalled_busy
from gaptop.valleys.causes.synchronisation import synchronisation
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
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


SHORT = replace(FROZEN, end=11.6, power_ratio=None)
"""Frozen for 1.6 s: a long prefill would have booked its prompt by now, and no power was read."""


@pytest.mark.parametrize(
    ("late", "settled", "flow", "end", "named"),
    [
        (True, True, 0.0, 11.6, True),
        (True, False, 0.0, 11.6, False),
        (False, False, 0.0, 11.6, True),
        (True, True, 5000.0, 11.6, False),
        (True, True, 0.0, 10.8, False),
    ],
)
def test_a_standstill_under_two_seconds_is_no_prefill_where_none_was_booked(
    late: bool, settled: bool, flow: float, end: float, named: bool
) -> None:
    found = stalled_busy(replace(SHORT, prompt_late=late, prompt_settled=settled, prompt_flow=flow, end=end))
    assert (found.score > POSSIBLE) is named
    assert found.score < LIKELY
    warm = replace(SHORT, prompt_late=late, prompt_settled=settled, prompt_flow=flow, end=end, power_ratio=0.97)
    assert stalled_busy(warm).score < POSSIBLE


def test_energy_over_the_very_time_tells_before_power_that_lags() -> None:
    lagging = replace(SHORT, power_ratio=0.65, energy_ratio=0.45)
    assert stalled_busy(lagging).score == STRONG
    assert "energy drawn at 45%" in stalled_busy(lagging).facts[-1].says
    assert stalled_busy(replace(lagging, energy_ratio=None)).score < LIKELY
    assert prefill_interference(replace(PROMPTS, power_ratio=0.65)).score == STRONG
    assert prefill_interference(replace(PROMPTS, power_ratio=0.65, energy_ratio=0.45)).score == 0.0


FIRST = replace(
    CROWDED, end=10.5, running=gauge(0.0), waiting=gauge(18.0), kv=gauge(0.0), decode_rate=0.0, prompt_late=True,
    prompt_flow=9000.0, prompt_settled=True,
)  # fmt: skip
"""A batch has drained, and the next one is in its first step: gauges move when that ends."""


def test_a_first_prefill_of_a_batch_is_not_a_queue_that_nobody_admits() -> None:
    assert admission_stall(FIRST).score <= WEAK
    prefill = prefill_interference(FIRST)
    assert prefill.score >= LIKELY
    assert prefill.detail == "prefill alone: no decode waited for it"


@pytest.mark.parametrize("change", [{"busy": 0.1}, {"prompt_flow": 0.0}, {"prompt_late": False}])
def test_a_queue_that_nobody_admits_is_one_without_a_prefill(change: dict[str, Any]) -> None:
    assert admission_stall(replace(FIRST, **change)).score > WEAK


STOPPED = Evidence(
    "progress", "vllm", 10.0, 11.6, busy_level=1.0, running=gauge(20.0), waiting=gauge(0.0), stopped=("api",)
)


@pytest.mark.parametrize(("busy", "roles", "named"), [
    (1.0, ("api",), False), (0.0, ("api",), True), (None, ("api",), True), (1.0, ("api", "engine"), True),
])  # fmt: skip
def test_a_device_at_work_does_not_wait_for_a_stopped_front_end(
    busy: float | None, roles: tuple[str, ...], named: bool
) -> None:
    found = host_starvation(replace(STOPPED, busy=busy, stopped=roles))
    assert (found.score >= LIKELY) is named


BLOCKED_LOOP = Evidence(
    "progress", "vllm", 10.0, 13.0, busy=1.0, busy_level=1.0, running=gauge(11.0, 11.0), waiting=gauge(0.0),
    decode_rate=100.0, decode_before=800.0, scrape_latency=2.7, scrape_before=0.002,
    threads=(
        ThreadView("api", "MainThread", critical=False, activities={"detokenize": 0.97, "idle": 0.03}, on_cpu=0.95),
        ThreadView("engine", "MainThread", critical=True, activities={"device_sync": 1.0}, on_cpu=0.1),
    ),
    stacks_seen=True, states_seen=True,
)  # fmt: skip
"""The front end answers nobody for 2.7 s of 3, and passes no token on; the engine works."""


def test_a_blocked_front_end_holds_up_the_output_of_an_engine_at_work() -> None:
    found = host_starvation(BLOCKED_LOOP)
    assert found.score >= LIKELY
    assert found.detail == "front end (detokenize)"


@pytest.mark.parametrize(
    "change", [{"scrape_latency": 0.4}, {"decode_rate": 700.0}, {"threads": BLOCKED_LOOP.threads[1:]}]
)
def test_a_front_end_that_answers_or_passes_tokens_on_holds_nothing_up(change: dict[str, Any]) -> None:
    assert host_starvation(replace(BLOCKED_LOOP, **change)).score < POSSIBLE


AWAITED = Evidence(
    "utilisation", "vllm", 10.0, 10.2, busy=0.46, busy_level=0.93, running=gauge(2.0, 5.0), waiting=gauge(0.0),
    kv=gauge(0.02), decode_rate=140.0, decode_before=540.0, stacks_seen=True,
    threads=(
        ThreadView("api", "MainThread", critical=False, activities={"idle": 1.0}, on_cpu=0.01),
        ThreadView(
            "engine", "MainThread", critical=True, activities={"await_requests": 0.53, "device_sync": 0.47}, on_cpu=0.06
        ),
    ),
)  # fmt: skip
"""A dip of one window: half of it is the last step's end, for the other half the engine awaited requests."""


def test_an_engine_that_awaits_requests_for_as_long_as_its_device_idles_has_none() -> None:
    assert no_demand(AWAITED).score >= LIKELY
    assert no_demand(replace(AWAITED, kind="progress")).score < POSSIBLE
    assert no_demand(replace(AWAITED, busy=0.05)).score < POSSIBLE


def syncing(share: float) -> ThreadView:
    return ThreadView("engine", "MainThread", True, {"device_sync": share, "schedule": 1.0 - share}, 0.1)


@pytest.mark.parametrize(("share", "busy", "named"), [(0.97, 0.53, True), (0.97, 0.9, False), (0.7, 0.53, False)])
def test_a_thread_that_syncs_far_longer_than_its_device_works_is_blocked_by_more_than_its_work(
    share: float, busy: float, named: bool
) -> None:
    """Copies of a step that block: the device is half busy, and the thread is never out of its sync."""
    found = synchronisation(
        Evidence("utilisation", "vllm", 10.0, 16.0, busy=busy, busy_level=1.0, running=gauge(4.0, 4.0),
                 waiting=gauge(0.0, 0.0), threads=(syncing(share),), stacks_seen=True)
    )  # fmt: skip
    assert (found.score >= LIKELY) is named
    assert bool(found.against) is not named


@pytest.mark.parametrize(("running", "waiting", "named"), [(7.0, 3.0, False), (7.0, 6.0, True), (5.0, 3.0, True)])
def test_who_waited_and_ran_alike_before_is_not_what_keeps_the_others_out(
    running: float, waiting: float, named: bool
) -> None:
    found = admission_stall(
        Evidence("progress", "vllm", 10.0, 12.0, busy=1.0, busy_level=1.0, running=gauge(running, 7.5),
                 waiting=gauge(waiting, 2.9), limit=8.0, kv=gauge(0.3), decode_rate=96.0, decode_before=150.0)
    )  # fmt: skip
    assert (found.score >= LIKELY) is named


FULL = Evidence(
    "progress", "vllm", 10.0, 12.0, busy=1.0, busy_level=1.0, running=gauge(50.0, 37.0), waiting=gauge(35.0, 5.0),
    kv=gauge(0.97, 0.6), preemptions=19.0, decode_rate=1200.0, decode_before=2300.0, prompt_flow=2000.0,
    prompt_before=6000.0, prompt_settled=True,
)  # fmt: skip
"""A full cache that preempts; what is computed again is in no counter."""


def test_new_prompts_that_fill_the_steps_leave_a_full_cache_less_to_explain() -> None:
    assert cache_pressure(FULL).score == CERTAIN
    flooded = cache_pressure(replace(FULL, prompt_flow=21_000.0))
    assert flooded.score == SECONDED
    assert "new prompts" in flooded.against[0]
    as_before = cache_pressure(replace(FULL, prompt_flow=21_000.0, kv=gauge(0.97, 0.98)))
    assert as_before.score == DOUBTED
