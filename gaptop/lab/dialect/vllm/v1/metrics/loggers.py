"""Named after vllm/v1/metrics/loggers.py: books each message of the engine, with the traps that vLLM's metrics have.

Prompt tokens are booked with the first output token, preemptions with the preempted request's next token, request
histograms when a request finishes; gauges move with messages only, so they read 0 during the first step after idle.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gaptop.lab.core.events import Finished, Output, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.dialect.vllm.v1.metrics.families import COUNTERS, GAUGES, HISTOGRAMS, NAMES_OF_0_8, NOT_IN_0_8

HANDLER = "/v1/completions"


class PrometheusStatLogger:
    """Fills ``registry``. ``model`` is the served model's name. ``old``: the families and rules of 0.8."""

    def __init__(self, registry: CollectorRegistry, model: str, config: EngineConfig, *, old: bool = False) -> None:
        self._old = old
        names = NAMES_OF_0_8 if old else {}
        missing = NOT_IN_0_8 if old else frozenset()
        own = {"model_name": model, "engine": "0"}
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for name, (text, more) in GAUGES.items():
            if name in missing:
                continue
            gauge = Gauge(f"vllm:{names.get(name, name)}", text, [*own, *more], registry=registry)
            for key, labels in _children(name, more):
                self._gauges[key] = gauge.labels(**own, **labels)
        for name, (text, more) in COUNTERS.items():
            if name in missing:
                continue
            counter = Counter(f"vllm:{names.get(name, name)}", text, [*own, *more], registry=registry)
            for key, labels in _children(name, more):
                self._counters[key] = counter.labels(**own, **labels)
        for name, (text, buckets) in HISTOGRAMS.items():
            if name in missing:
                continue
            histogram = Histogram(f"vllm:{names.get(name, name)}", text, [*own], buckets=buckets, registry=registry)
            self._histograms[name] = histogram.labels(**own)
        if not old:
            self._gauges["engine_sleep_state/awake"].set(1)
        _cache_config(registry, config)
        self._http = Counter(
            "http_requests",
            "Total number of requests by method, status and handler.",
            ["handler", "method", "status"],
            registry=registry,
        ).labels(handler=HANDLER, method="POST", status="2xx")
        self._http_seconds = Histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler.",
            ["handler", "method"],
            buckets=(0.1, 0.5, 1.0),
            registry=registry,
        ).labels(handler=HANDLER, method="POST")

    def record(self, step: StepDone) -> None:
        """Book one message of the engine."""
        gauges, counters = self._gauges, self._counters
        gauges["num_requests_running"].set(step.running)
        gauges["num_requests_waiting"].set(step.waiting)
        if not self._old:
            gauges["num_requests_waiting_by_reason/capacity"].set(step.waiting - step.deferred)
            gauges["num_requests_waiting_by_reason/deferred"].set(step.deferred)
        gauges["kv_cache_usage_perc"].set(step.used_blocks / step.blocks)
        counters["prefix_cache_queries"].inc(step.queried_tokens)
        counters["prefix_cache_hits"].inc(step.hit_tokens)
        if not step.outputs:
            return
        prompt = sum(self._record_output(output) for output in step.outputs)
        counters["generation_tokens"].inc(len(step.outputs))
        self._histograms["iteration_tokens_total"].observe(prompt + len(step.outputs))

    def _record_output(self, output: Output) -> int:
        """Book one token; the prompt tokens that its step counts where it is a request's first: 0.8 counts cached ones,
        too."""
        if output.preemptions:
            self._counters["num_preemptions"].inc(output.preemptions)
        if output.since_last is not None:
            self._histograms["inter_token_latency_seconds"].observe(output.since_last)
        if output.finished is not None:
            self._record_finished(output.finished)
        if output.first is None:
            return 0
        prompt, cached, ttft = output.first
        self._counters["prompt_tokens"].inc(prompt)
        self._histograms["time_to_first_token_seconds"].observe(ttft)
        if self._old:
            return prompt
        self._counters["prompt_tokens_by_source/local_compute"].inc(prompt - cached)
        self._counters["prompt_tokens_by_source/local_cache_hit"].inc(cached)
        self._counters["prompt_tokens_cached"].inc(cached)
        return prompt - cached

    def _record_finished(self, done: Finished) -> None:
        self._counters["request_success/length"].inc()
        self._http.inc()
        self._http_seconds.observe(done.e2e)
        values = {
            "request_prompt_tokens": done.prompt_tokens,
            "request_generation_tokens": done.output_tokens,
            "request_time_per_output_token_seconds": done.decode / max(done.output_tokens - 1, 1),
            "e2e_request_latency_seconds": done.e2e,
            "request_queue_time_seconds": done.queue,
            "request_inference_time_seconds": done.prefill + done.decode,
            "request_prefill_time_seconds": done.prefill,
            "request_decode_time_seconds": done.decode,
            "request_num_preemptions": done.preemptions,
            "request_prefill_kv_computed_tokens": done.prompt_tokens - done.cached_tokens,
        }
        for name, value in values.items():
            if name in self._histograms:
                self._histograms[name].observe(value)


def _children(name: str, more: dict[str, tuple[str, ...]]) -> list[tuple[str, dict[str, str]]]:
    """The series of one family: our key, and the labels beside model and engine."""
    if not more:
        return [(name, {})]
    [(label, values)] = more.items()
    return [(f"{name}/{value}", {label: value}) for value in values]


def _cache_config(registry: CollectorRegistry, config: EngineConfig) -> None:
    tokens = config.num_blocks * config.block_size
    labels = {
        "block_size": str(config.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": "True",
        "engine": "0",
        "gpu_memory_utilization": "0.85",
        "kv_cache_max_concurrency": str(tokens / config.max_model_len),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(config.num_blocks),
        "num_gpu_blocks_override": "None",
    }
    gauge = Gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", [*labels], registry=registry)
    gauge.labels(**labels).set(1)
