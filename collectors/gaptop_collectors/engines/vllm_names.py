"""vLLM's metric names, 0.8.5 to 0.33, and what they say in our vocabulary.

Facts: vLLM's ``v1/metrics/loggers.py``. Traps that matter to whoever reads the signals:

* gauges and counters move once per engine step with output, and never between: a stuck engine shows its last values;
* during the first step after silence running and waiting are still 0;
* prompt tokens are booked whole when the last chunk of a prompt is done, and recomputation after a preemption is in no
  token counter;
* the preemption counter moves when the preempted request produces output again, which is seconds late;
* queue times are booked when a request finishes; requests that a client hangs up on are counted nowhere;
* with several API servers every step is counted once per API server that had output in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gaptop_collectors.engines.exposition import Sample
from gaptop_collectors.signals import series_key

RUNNING: Final = "vllm:num_requests_running"
CONFIG: Final = "vllm:cache_config_info"
STARTED: Final = "process_start_time_seconds"
_BY_REASON: Final = "vllm:num_requests_waiting_by_reason"
_SLEEP: Final = "vllm:engine_sleep_state"
_BY_SOURCE: Final = "vllm:prompt_tokens_by_source_total"
_HTTP: Final = "http_requests_total"

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "sched.running": (RUNNING,),
    "sched.waiting": ("vllm:num_requests_waiting",),
    "sched.waiting_by_reason": (_BY_REASON,),
    "sched.sleeping": (_SLEEP,),
    "sched.preemptions": ("vllm:num_preemptions_total",),
    "sched.finished": ("vllm:request_success_total",),
    "sched.http_requests": (_HTTP,),
    "kv.used": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "kv.queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "kv.hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    # Computed tokens where the server tells them apart: cached ones cost no device time.
    "tokens.prompt": (_BY_SOURCE, "vllm:prompt_tokens_total"),
    "tokens.decode": ("vllm:generation_tokens_total",),
    "tokens.per_step": ("vllm:iteration_tokens_total_sum",),
    "step.count": ("vllm:iteration_tokens_total_count",),
    "latency.ttft_sum": ("vllm:time_to_first_token_seconds_sum",),
    "latency.ttft_count": ("vllm:time_to_first_token_seconds_count",),
    "latency.itl_sum": ("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
    "latency.itl_count": ("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"),
    "latency.queue_sum": ("vllm:request_queue_time_seconds_sum",),
    "latency.queue_count": ("vllm:request_queue_time_seconds_count",),
}
"""Signal to its sample names, newest first; the first one that a server has is used."""

WANTED: Final = frozenset(name for names in ALIASES.values() for name in names) | {STARTED, CONFIG}

RESTARTS: Final = ("tokens.decode", "tokens.prompt", "step.count", "sched.finished", "sched.http_requests")
"""Counters that only a restart can make smaller."""

_WORD: Final = re.compile("[a-z_]{1,32}")

FAST: Final = ("sched.running", "sched.waiting", "kv.used", "tokens.prompt", "tokens.decode", "step.count")
"""What is worth reading eight times a second: each name costs the server about 0.1 ms."""

RARE: Final = (
    *("sched.http_requests", "tokens.per_step", "kv.queries", "kv.hits"),
    *("latency.ttft_sum", "latency.ttft_count", "latency.itl_sum", "latency.itl_count"),
    *("latency.queue_sum", "latency.queue_count"),
)
"""Nothing on the screen rests on them; a verdict does on the prefix cache's, where a valley lasts for longer."""

USUAL: Final = tuple(signal for signal in ALIASES if signal not in RARE)

Grouped = Mapping[str, Sequence[Sample]]


def group(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Samples by name."""
    by_name: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_name[sample.name].append(sample)
    return dict(by_name)


def chosen(present: Grouped, signals: Iterable[str]) -> list[str]:
    """The sample names to ask this server for: one alias a signal, the newest where none is there (yet)."""
    return [next((n for n in ALIASES[signal] if n in present), ALIASES[signal][0]) for signal in signals]


def engines(present: Grouped) -> int:
    """Number of engine cores (data-parallel ranks) that the samples speak of; 0 when none does yet."""
    return len({s.labels.get("engine", "0") for s in present.get(RUNNING, ())})


def values(present: Grouped) -> dict[str, float | None]:
    """Series key to value. Engine cores are summed; KV use is the fullest core's, for it is that one that preempts;
    sleeping is the share of cores asleep. None where any part was not a number; absent where the server has no such
    sample."""
    out: dict[str, float | None] = {}
    for signal, aliases in ALIASES.items():
        name = next((n for n in aliases if n in present), None)
        if name is None:
            continue
        samples = present[name]
        if name == _BY_REASON:
            for reason in sorted({s.labels.get("reason", "") for s in samples}):
                if not _WORD.fullmatch(reason):
                    continue  # it becomes part of a series key
                some = [s for s in samples if s.labels.get("reason") == reason]
                out[series_key(signal, reason=reason)] = _fold(some, sum)
        elif name == _SLEEP:
            awake = [s for s in samples if s.labels.get("sleep_state") == "awake"]
            share = _fold(awake, lambda numbers: 1 - sum(numbers) / len(numbers))
            if awake:
                out[signal] = share
        elif name == _BY_SOURCE:
            computed = [s for s in samples if s.labels.get("source") == "local_compute"]
            if computed:
                out[signal] = _fold(computed, sum)
        elif name == _HTTP:
            # Only POST: a monitor's own GETs (/version, /v1/models) are no demand.
            posts = [s for s in samples if s.labels.get("method", "POST") == "POST"]
            out[signal] = _fold(posts, sum) if posts else 0.0
        else:
            out[signal] = _fold(samples, max if signal == "kv.used" else sum)
    return out


def kv_capacity(present: Grouped) -> float | None:
    """Tokens that the KV caches of all engine cores hold, from the labels of ``vllm:cache_config_info``."""
    total = 0.0
    for sample in present.get(CONFIG, ()):
        labels = sample.labels
        try:
            size = labels.get("kv_cache_size_tokens", "")
            total += float(size) if size.isdigit() else float(labels["num_gpu_blocks"]) * float(labels["block_size"])
        except (KeyError, ValueError):
            return None  # "None" until the engine has measured its memory
    return total or None


def start_marker(present: Grouped) -> float | None:
    """``process_start_time_seconds`` of the API process; None with several API servers."""
    samples = present.get(STARTED, ())
    return samples[0].value if samples else None


def _fold(samples: Sequence[Sample], how: Callable[[list[float]], float]) -> float | None:
    numbers = [s.value for s in samples if s.value is not None]
    return float(how(numbers)) if numbers and len(numbers) == len(samples) else None
