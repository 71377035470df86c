"""What is known of one llama-server, and how its source describes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gaptop_collectors.collector import SourceInfo

PERIOD: Final = 0.5

_NOT_SAID: Final = "llama-server does not tell"
_NO_METRICS: Final = "llama-server runs without --metrics"
_NO_SLOTS: Final = "llama-server runs with --no-slots"
_COARSE: Final = "printed with six digits only: past a million its steps are too coarse"
_CACHE: Final = "nothing the server says tells whether its slots share one KV cache"
_WHY: Final = {
    "sched.waiting_by_reason": "llama-server has one reason only: no free slot",
    "sched.token_budget": _NOT_SAID,
    "sched.preemptions": "llama-server never preempts",
    "sched.finished": _NOT_SAID,
    "sched.http_requests": _NOT_SAID,
    "sched.in_flight": _NOT_SAID,
    "sched.sleeping": _NOT_SAID,
    "tokens.per_step": _NOT_SAID,
    "kv.queries": _NOT_SAID,
    "kv.hits": _NOT_SAID,
    "latency.ttft_sum": _NOT_SAID,
    "latency.ttft_count": _NOT_SAID,
    "latency.itl_sum": _NOT_SAID,
    "latency.itl_count": _NOT_SAID,
    "latency.queue_sum": _NOT_SAID,
    "latency.queue_count": _NOT_SAID,
}


@dataclass(slots=True)
class Known:
    """What is known until the server restarts. ``one_cache``: its slots share one KV cache (None: not known)."""

    has_metrics: bool = True
    has_slots: bool = True
    one_cache: bool | None = None
    version: str | None = None
    model: str | None = None


def describe(
    collector: str, url: str, known: Known, keys: Sequence[str], pids: Sequence[int], error: float
) -> SourceInfo:
    """The source as it is now. ``keys`` are the series it delivers; ``error`` bounds a reading's time, in seconds."""
    why = dict(_WHY)
    why["sched.waiting"] = _NO_METRICS
    why["step.count"] = _COARSE if known.has_metrics else _NO_METRICS
    for signal in ("slots.prefilling", "sched.limit", "tokens.prompt"):
        why[signal] = _NO_SLOTS
    # Without slots they are booked when a request ends: a counter that stands still while tokens flow would lie.
    why["tokens.decode"] = f"{_NO_SLOTS}, and books generated tokens only when a request ends"
    why["kv.used"] = why["kv.capacity"] = _CACHE if known.has_slots else _NO_SLOTS
    return SourceInfo(
        source=f"metrics/{url}",
        collector=collector,
        kind="server",
        entity={"url": url, "engine": "llamacpp", "version": known.version, "model": known.model, "pids": list(pids)},
        signals=sorted(set(keys)),
        period=PERIOD,
        unsupported={signal: reason for signal, reason in why.items() if signal not in keys},
        error=error,
        refresh="step",
        refresh_by_signal={"latency.scrape": "scrape"},
        says=_says(known),
    )


def _says(known: Known) -> str:
    if not known.has_metrics:
        return (
            "llama-server runs without --metrics, so waiting requests and its step count are not visible, and tokens "
            "are a lower bound (a slot forgets a request's last ones when the next request takes it); restart it with "
            "--metrics to see them."
        )
    if not known.has_slots:
        return (
            "llama-server runs with --no-slots, so generated tokens, prefill and KV use are not visible while requests "
            "run; restart it without that flag to see them."
        )
    return ""
