"""The lab's metrics: vLLM's names and labels, filled with vLLM's timing, equal to the simulation's own count."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gaptop.lab.core.events import StepDone
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.v1.metrics.loggers import PrometheusStatLogger
from gaptop.lab.live.http import MODEL
from gaptop.lab.scenarios import SCENARIOS


def read(registry: CollectorRegistry) -> dict[str, float]:
    """Sample name and its label beside model and engine, to value."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            extra = [value for name, value in sample.labels.items() if name not in ("model_name", "engine")]
            found["/".join([sample.name, *extra])] = sample.value
    return found


@pytest.fixture
def booked() -> tuple[CollectorRegistry, list[StepDone]]:
    scenario = SCENARIOS["cache_pressure"]
    registry = CollectorRegistry()
    logger = PrometheusStatLogger(registry, MODEL, scenario.engine)
    steps = [event for event in Simulation(scenario, 1).events(11.0) if isinstance(event, StepDone)]
    for step in steps:
        logger.record(step)
    return registry, steps


def test_counters_equal_the_simulation(booked: tuple[CollectorRegistry, list[StepDone]]) -> None:
    registry, steps = booked
    values = read(registry)
    outputs = [output for step in steps for output in step.outputs]
    firsts = [output.first for output in outputs if output.first is not None]
    assert values["vllm:generation_tokens_total"] == len(outputs)
    assert values["vllm:prompt_tokens_total"] == sum(first.prompt_tokens for first in firsts)
    assert values["vllm:prefix_cache_hits_total"] == values["vllm:prompt_tokens_cached_total"] == 5600
    assert values["vllm:num_preemptions_total"] == sum(output.preemptions for output in outputs) > 0
    assert values["vllm:iteration_tokens_total_count"] == sum(1 for step in steps if step.outputs)
    computed = sum(first.prompt_tokens - first.cached_tokens for first in firsts)
    assert values["vllm:iteration_tokens_total_sum"] == computed + len(outputs)
    assert values["vllm:request_success_total/length"] == sum(1 for output in outputs if output.finished)
    assert values["vllm:request_queue_time_seconds_count"] == values["vllm:request_success_total/length"]
    assert values["vllm:inter_token_latency_seconds_count"] == len(outputs) - len(firsts)


def test_gauges_are_those_of_the_last_message(booked: tuple[CollectorRegistry, list[StepDone]]) -> None:
    registry, steps = booked
    values = read(registry)
    assert values["vllm:num_requests_running"] == steps[-1].running
    assert values["vllm:num_requests_waiting"] == steps[-1].waiting
    assert values["vllm:kv_cache_usage_perc"] == pytest.approx(steps[-1].used_blocks / 768)
    assert values["vllm:engine_sleep_state/awake"] == 1


def test_capacity_is_in_the_labels_of_cache_config_info(booked: tuple[CollectorRegistry, list[StepDone]]) -> None:
    families = text_string_to_metric_families(generate_latest(booked[0]).decode())
    [info] = [family for family in families if family.name == "vllm:cache_config_info"]
    labels = info.samples[0].labels
    assert int(labels["num_gpu_blocks"]) * int(labels["block_size"]) == int(labels["kv_cache_size_tokens"]) == 12288


def test_names_without_the_total_suffix_select_nothing(booked: tuple[CollectorRegistry, list[StepDone]]) -> None:
    registry, _ = booked
    names = ["vllm:iteration_tokens_total", "vllm:generation_tokens_total", "vllm:iteration_tokens_total_count"]
    some = generate_latest(registry.restricted_registry(names)).decode()
    lines = [line.split("{")[0] for line in some.splitlines() if not line.startswith("#")]
    assert sorted(lines) == ["vllm:generation_tokens_total", "vllm:iteration_tokens_total_count"]
