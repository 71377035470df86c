"""Names, help texts, labels and buckets of the metric families of vLLM 0.32 that the lab fills, and 0.8's names."""

from __future__ import annotations

from typing import Final

_LATENCY: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
_ITL: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_TTFT: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
_LENGTH: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
_STEP: Final = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)

GAUGES: Final[dict[str, tuple[str, dict[str, tuple[str, ...]]]]] = {
    "num_requests_running": ("Number of requests in model execution batches.", {}),
    "num_requests_waiting": ("Number of requests waiting to be processed.", {}),
    "num_requests_waiting_by_reason": ("Number of waiting requests by reason.", {"reason": ("capacity", "deferred")}),
    "engine_sleep_state": (
        "Engine sleep state; awake = 1 means engine is awake.",
        {"sleep_state": ("awake", "weights_offloaded", "discard_all")},
    ),
    "kv_cache_usage_perc": ("KV-cache usage. 1 means 100 percent usage.", {}),
}
"""Name (after ``vllm:``) to help text and further labels with their values."""

COUNTERS: Final[dict[str, tuple[str, dict[str, tuple[str, ...]]]]] = {
    "prefix_cache_queries": ("Prefix cache queries, in terms of number of queried tokens.", {}),
    "prefix_cache_hits": ("Prefix cache hits, in terms of number of cached tokens.", {}),
    "num_preemptions": ("Cumulative number of preemption from the engine.", {}),
    "prompt_tokens": ("Number of prefill tokens processed.", {}),
    "prompt_tokens_by_source": (
        "Number of prompt tokens by source.",
        {"source": ("local_compute", "local_cache_hit", "external_kv_transfer")},
    ),
    "prompt_tokens_cached": ("Number of cached prompt tokens (local + external).", {}),
    "generation_tokens": ("Number of generation tokens processed.", {}),
    "request_success": (
        "Count of successfully processed requests.",
        {"finished_reason": ("stop", "length", "abort", "error", "repetition")},
    ),
}

HISTOGRAMS: Final[dict[str, tuple[str, tuple[float, ...]]]] = {
    "request_prompt_tokens": ("Number of prefill tokens processed.", _LENGTH),
    "request_generation_tokens": ("Number of generation tokens processed.", _LENGTH),
    "iteration_tokens_total": ("Histogram of number of tokens per engine_step.", _STEP),
    "time_to_first_token_seconds": ("Histogram of time to first token in seconds.", _TTFT),
    "inter_token_latency_seconds": ("Histogram of inter-token latency in seconds.", _ITL),
    "request_time_per_output_token_seconds": ("Histogram of time_per_output_token_seconds per request.", _ITL),
    "e2e_request_latency_seconds": ("Histogram of e2e request latency in seconds.", _LATENCY),
    "request_queue_time_seconds": ("Histogram of time spent in WAITING phase for request.", _LATENCY),
    "request_inference_time_seconds": ("Histogram of time spent in RUNNING phase for request.", _LATENCY),
    "request_prefill_time_seconds": ("Histogram of time spent in PREFILL phase for request.", _LATENCY),
    "request_decode_time_seconds": ("Histogram of time spent in DECODE phase for request.", _LATENCY),
    "request_num_preemptions": (
        "Histogram of the number of times a request was preempted.",
        (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
    ),
    "request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        _LENGTH,
    ),
}

NAMES_OF_0_8: Final = {
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "prefix_cache_queries": "gpu_prefix_cache_queries",
    "prefix_cache_hits": "gpu_prefix_cache_hits",
    "inter_token_latency_seconds": "time_per_output_token_seconds",
}
NOT_IN_0_8: Final = frozenset(
    {
        "num_requests_waiting_by_reason",
        "engine_sleep_state",
        "prompt_tokens_by_source",
        "prompt_tokens_cached",
        "request_time_per_output_token_seconds",
        "request_num_preemptions",
        "request_prefill_kv_computed_tokens",
    }
)
