"""vLLM's names and traps, on bodies recorded from a real 0.32.0 server and on ones made to break things."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gaptop_collectors.engines import vllm_names as names
from gaptop_collectors.engines.exposition import ExpositionReader
from gaptop_collectors.signals import SIGNALS, split_key

DATA = Path(__file__).parents[1] / "data" / "vllm"
BURSTY = (DATA / "0.32_bursty.prom").read_text()


def values(text: str) -> dict[str, float | None]:
    return names.values(names.group(ExpositionReader(names.WANTED).read(text)))


def test_a_real_body_says_what_the_server_said() -> None:
    assert values(BURSTY) == {
        "sched.running": 12.0,
        "sched.waiting": 0.0,
        "sched.waiting_by_reason{reason=capacity}": 0.0,
        "sched.waiting_by_reason{reason=deferred}": 0.0,
        "sched.sleeping": 0.0,
        "sched.preemptions": 0.0,
        "sched.finished": 143.0,
        "sched.http_requests": 215.0,
        "kv.used": 0.0329851566794942,
        "kv.queries": 75324.0,
        "kv.hits": 2400.0,
        "tokens.prompt": 72924.0,  # local_compute; 2400 more came out of the prefix cache
        "tokens.decode": 16474.0,
        "tokens.per_step": 89398.0,
        "step.count": 2337.0,
        "latency.ttft_sum": 384.2932424545288,
        "latency.ttft_count": 227.0,
        "latency.itl_sum": 831.5720471460002,
        "latency.itl_count": 16247.0,
        "latency.queue_sum": 289.5908625499983,
        "latency.queue_count": 143.0,
    }
    present = names.group(ExpositionReader(names.WANTED).read(BURSTY))
    assert names.kv_capacity(present) == 58240.0
    assert names.start_marker(present) == 1.7959650592e9


def test_every_signal_is_in_the_vocabulary() -> None:
    assert {split_key(key)[0] for key in values(BURSTY)} <= SIGNALS.keys()
    assert set(names.ALIASES) <= SIGNALS.keys()
    assert set(names.FAST) <= set(names.ALIASES)


def test_kv_pressure_shows_before_the_preemption_counter() -> None:
    bodies = (DATA / "0.32_kvpressure.txt").read_text().split("=== ")[1:]
    seen = [values(body.partition("\n")[2]) for body in bodies]
    running = [each["sched.running"] for each in seen]
    waiting = [each["sched.waiting"] for each in seen]
    preempted = [each["sched.preemptions"] for each in seen]
    assert running[3:8] == [24, 19, 13, 9, 7]
    assert waiting[3:8] == [0, 5, 11, 15, 17]
    assert preempted[3:9] == [0, 0, 0, 0, 0, 14]
    assert all(value is not None and value > 0.9 for value in [each["kv.used"] for each in seen[4:8]])


def test_engine_cores_are_summed_and_the_fullest_cache_counts() -> None:
    text = (DATA / "0.32_dp2.prom").read_text()
    got = values(text)
    present = names.group(ExpositionReader(names.WANTED).read(text))
    assert names.engines(present) == 2
    assert got["sched.running"] == 8.0
    assert got["step.count"] == 208.0
    text = text.replace('usage_perc{engine="1",model_name="tiny"} 0.00030518043793392735', 'usage_perc{engine="1"} 0.9')
    assert values(text)["kv.used"] == 0.9


@pytest.mark.parametrize(
    ("old", "signal"),
    [
        ("vllm:gpu_cache_usage_perc", "kv.used"),
        ("vllm:gpu_prefix_cache_queries_total", "kv.queries"),
        ("vllm:gpu_prefix_cache_hits_total", "kv.hits"),
        ("vllm:prompt_tokens_total", "tokens.prompt"),
        ("vllm:time_per_output_token_seconds_sum", "latency.itl_sum"),
        ("vllm:time_per_output_token_seconds_count", "latency.itl_count"),
    ],
)
def test_old_names_are_understood(old: str, signal: str) -> None:
    assert values(f'{old}{{model_name="m"}} 0.5\n')[signal] == 0.5


def test_the_newer_of_two_names_wins() -> None:
    assert values("vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.2\n")["kv.used"] == 0.2


def test_not_a_number_in_one_core_makes_the_sum_unknown() -> None:
    text = 'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} NaN\n'
    assert values(text) == {"sched.running": None}


def test_a_monitors_own_requests_are_no_demand() -> None:
    text = 'http_requests_total{handler="/v1/models",method="GET",status="2xx"} 7\n'
    assert values(text) == {"sched.http_requests": 0.0}


def test_sleeping_is_the_share_of_cores_asleep() -> None:
    text = "".join(
        f'vllm:engine_sleep_state{{engine="{core}",sleep_state="awake"}} {awake}\n'
        f'vllm:engine_sleep_state{{engine="{core}",sleep_state="discard_all"}} {1 - awake}\n'
        for core, awake in ((0, 1), (1, 0))
    )
    assert values(text)["sched.sleeping"] == 0.5


def test_an_odd_reason_cannot_forge_a_series() -> None:
    text = 'vllm:num_requests_waiting_by_reason{reason="x},a{b=c"} 1\n'
    assert values(text) == {}


def test_several_api_servers_have_no_start_marker() -> None:
    present = names.group(ExpositionReader(names.WANTED).read((DATA / "0.32_api2.prom").read_text()))
    assert names.start_marker(present) is None
    assert names.values(present)["sched.running"] == 8.0


def test_counters_come_out_finite() -> None:
    assert all(value is None or math.isfinite(value) for value in values(BURSTY.replace("16474.0", "+Inf")).values())
    assert values(BURSTY.replace("16474.0", "+Inf"))["tokens.decode"] is None
