"""What is known of one vLLM server, and how its source describes itself: what it delivers, what it cannot and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.engines import vllm_names as names
from gaptop_collectors.signals import split_key

PERIOD: Final = 0.5
WHOLE_PERIOD: Final = 0.6
"""Seconds between whole bodies: 1.7 a second are one per cent of the front end's time."""
RARE_PERIOD: Final = 5.0
"""Seconds between two readings of what no verdict needs, where the server filters."""

_NEVER: Final = {
    "slots.prefilling": "vLLM does not tell which running requests are still in prefill",
    "sched.in_flight": "vLLM counts open HTTP requests only when started with --enable-server-load-tracking",
    "sched.token_budget": "the token budget is neither in vLLM's metrics nor in a command line that gaptop can read",
    "sched.limit": "the sequence cap is neither in vLLM's metrics nor in a command line that gaptop can read",
    "kv.capacity": "the server has not said yet how many KV blocks it has",
}
_BY_SIGNAL: Final = {
    "sched.preemptions": "late",  # with the next output of the preempted request
    "tokens.prompt": "prompt_end",  # whole, when its last chunk is done
    "latency.queue_sum": "finish",
    "latency.queue_count": "finish",
    "latency.scrape": "scrape",
    "sched.in_flight": "scrape",
    "sched.http_requests": "finish",
    "sched.finished": "finish",
}


@dataclass(slots=True)
class Known:
    """What one look at the whole body and the side endpoints has told; valid until the server restarts.

    ``filtered`` is the path of the filtered scrape of everything, where the server filters, ``usual`` the one without
    what no verdict needs (``rare``: the series keys that it leaves out), ``fast`` the one for the few signals that are
    worth more than two a second; ``limits`` are per engine core; ``load`` says whether ``/load`` counts (None: not
    found out yet); ``looked`` is time.monotonic().
    """

    filtered: str | None = None
    usual: str = ""
    fast: str = ""
    rare: frozenset[str] = frozenset()
    logs_stats: bool = True
    has_gauges: bool = True
    several_apis: bool = False
    version: str | None = None
    model: str | None = None
    capacity: float | None = None
    engines: int = 0
    limits: dict[str, float] = field(default_factory=dict)
    looked: float = 0.0
    load: bool | None = None


def describe(
    collector: str, url: str, known: Known, keys: Sequence[str], pids: Sequence[int], error: float
) -> SourceInfo:
    """The source as it is now. ``keys`` are the series it delivers; ``error`` bounds a reading's time, in seconds."""
    delivered = sorted({split_key(key)[0] for key in keys})
    why = dict(_NEVER)
    for signal, aliases in names.ALIASES.items():
        why[signal] = (
            f"this vLLM ({known.version or 'version unknown'}) has no {aliases[0]}"
            if known.logs_stats
            else "vLLM was started with --disable-log-stats"
        )
    return SourceInfo(
        source=f"metrics/{url}",
        collector=collector,
        kind="server",
        entity={
            **{"url": url, "engine": "vllm", "version": known.version, "model": known.model, "pids": list(pids)},
            **{"engines": known.engines or None, "several_api_servers": known.several_apis},
        },
        signals=delivered,
        period=PERIOD if known.filtered else WHOLE_PERIOD,
        unsupported={signal: reason for signal, reason in why.items() if signal not in delivered},
        error=error,
        period_by_signal={signal: RARE_PERIOD for signal in delivered if known.filtered and signal in names.RARE},
        refresh="step",
        refresh_by_signal={signal: rule for signal, rule in _BY_SIGNAL.items() if signal in delivered},
        says=_says(known),
    )


def _says(known: Known) -> str:
    if not known.logs_stats:
        return (
            "vLLM was started with --disable-log-stats, so its queue, tokens, KV cache and latencies are not visible; "
            "restart it without that flag to see them."
        )
    if not known.has_gauges:
        return (
            "vLLM with several API servers shows its queue and KV cache only after the first request; until then they "
            "are not known."
        )
    says = []
    if known.several_apis:
        says.append("Several API servers: each step is counted once by every one of them, so step rates are too high.")
    if known.filtered is None:
        says.append("This server does not filter its metrics, so they are read at most every 0.6 s.")
    says.append(
        "Each scrape writes a line to vLLM's access log unless it runs with "
        "--disable-access-log-for-endpoints /metrics,/metrics/,/load."
    )
    return " ".join(says)
