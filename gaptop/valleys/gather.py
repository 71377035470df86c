"""Collects the evidence on a stretch of time from the Timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView
from gaptop.valleys import reading
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.gather_host import stopped_roles, thread_views
from gaptop.valleys.gather_prompt import prompt_flow, prompt_late, prompt_settled
from gaptop.valleys.model import ValleyKind
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope
from gaptop_collectors.signals import split_key

LOOK_AHEAD: Final = 2.0
"""Seconds after a valley that still tell about it: vLLM counts preemptions up to 1.5 s late."""

SLOT_ENGINES: Final = frozenset({"llamacpp"})
"""Engines in which a request waits for nothing but a free slot (llama.cpp: server-queue.cpp, requests_deferred)."""

NONE_WAITS: Final = Gauge(mean=0.0, low=0.0, high=0.0, first=0.0, last=0.0)

HARMLESS_REASONS: Final = frozenset(
    {"idle", "gpu_idle", "low_utilization", "applications_clocks", "applications_clocks_setting", "display_clock"}
    | {"display_clock_setting", "sync_boost", "none"}
)
"""Clock-event reasons that do not mean a limit: an idle card lowers its clocks by itself."""

SLOW_CALL_AFTER: Final = 0.5
"""Seconds: a slow call is reported when it has come back, after the readings that it disturbed."""

HARMFUL_BITS: Final = 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x200 | 0x400
"""NVML's clocks-event bits for power, thermal, board and reliability limits (nvml.h)."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to collect evidence on: a valley or a slice of it."""

    kind: ValleyKind
    start: float
    end: float
    devices: tuple[str, ...]
    level: float | None


def gather(timeline: Timeline, scope: Scope, stretch: Stretch, before: Reference) -> Evidence:
    """The evidence on one stretch. Reads nothing later than its end plus the look-ahead."""
    start, end = stretch.start, stretch.end
    metrics, host = scope.metrics, scope.host
    busy = reading.mean(timeline, "device.busy", stretch.devices, start, end, "mean")
    others = tuple(item.source for item in scope.devices if item.source not in stretch.devices)
    power = reading.mean(timeline, "device.power", stretch.devices, start, end)
    reason, limited, limited_before = _limits(timeline, stretch, before)
    threads = thread_views(timeline, scope, start, end, before)
    views = timeline.sources
    live = tuple(item for item in metrics if item in views and decode_is_live(views[item].info))

    def read(signal: str, sources: Sequence[str]) -> Gauge | None:
        period = max((views[item].info.period for item in sources if item in views), default=0.0)
        return reading.gauge(timeline, signal, sources, start, end, period, before.mean(signal, sources))

    running, waiting = read("sched.running", metrics), read("sched.waiting", metrics)
    limit = reading.highest(timeline, "sched.limit", metrics, start, end)
    why = "" if waiting is not None else _none_waits(scope, running, limit)
    prefilling = reading.mean(timeline, "slots.prefilling", metrics, start, end)
    return Evidence(
        kind=stretch.kind,
        engine=scope.engine,
        start=start,
        end=end,
        busy=busy,
        busy_level=stretch.level or before.mean("device.busy", stretch.devices, "mean"),
        peers_busy=reading.mean(timeline, "device.busy", others, start, end, "mean") if stretch.devices else None,
        power=power,
        power_ratio=_ratio(power, before.mean("device.power", stretch.devices)),
        clock_ratio=_ratio(
            reading.mean(timeline, "device.clock_sm", stretch.devices, start, end),
            before.mean("device.clock_sm", stretch.devices),
        ),
        limit_share=limited,
        limit_share_before=limited_before,
        limit_reason=reason,
        foreign=reading.highest(timeline, "device.foreign_processes", stretch.devices, start, end),
        foreign_before=before.mean("device.foreign_processes", stretch.devices),
        is_cpu=any(item.is_cpu for item in scope.devices if item.source in stretch.devices),
        running=running,
        waiting=NONE_WAITS if why else waiting,
        waiting_why=why,
        deferred=_deferred(timeline, metrics, start, end),
        limit=limit,
        kv=read("kv.used", metrics),
        preemptions=reading.increase(timeline, "sched.preemptions", metrics, start, end + LOOK_AHEAD)
        or reading.increase(timeline, "sched.preemptions", metrics, start, end),
        finished=reading.increase(timeline, "sched.finished", metrics, start, end),
        sleeping=reading.highest(timeline, "sched.sleeping", metrics, start, end),
        in_flight=read("sched.in_flight", metrics),
        connections=read("host.connections", host),
        decode_rate=reading.rate(timeline, "tokens.decode", live, start, end),
        decode_before=before.rate("tokens.decode", live),
        prompt_rate=reading.rate(timeline, "tokens.prompt", metrics, start, end),
        prompt_before=before.rate("tokens.prompt", metrics),
        prompt_flow=prompt_flow(timeline, metrics, start, end, before),
        prompt_late=prefilling is None and prompt_late(views, metrics),
        prompt_settled=prompt_settled(timeline, metrics, end),
        prefilling=prefilling,
        step_rate=reading.rate(timeline, "step.count", metrics, start, end),
        step_before=before.rate("step.count", metrics),
        inner_progress=_inner(timeline, (("step.count", metrics), ("tokens.decode", live)), views, stretch, before),
        scrape_latency=reading.highest(timeline, "latency.scrape", metrics, start, end),
        scrape_before=before.mean("latency.scrape", metrics),
        threads=threads,
        stacks_seen=any(item.activities is not None for item in threads),
        states_seen=any(item.on_cpu is not None for item in threads),
        stopped=stopped_roles(timeline, scope, start, end),
        compilers=reading.highest(timeline, "host.compilers", host, start, end),
        compilers_before=before.mean("host.compilers", host),
        throttled_share=reading.rate(timeline, "host.throttled", host, start, end),
        major_faults=reading.rate(timeline, "host.major_faults", host, start, end),
        young_seconds=_young(timeline, scope, end),
        slow_calls=_slow_calls(timeline, start, end),
    )


def _none_waits(scope: Scope, running: Gauge | None, limit: float | None) -> str:
    """Why no request can have waited although waiting was not told ("": nothing says so)."""
    if scope.engine not in SLOT_ENGINES or running is None or limit is None or running.high >= limit:
        return ""
    return f"not told, but {limit - running.high:.0f} of {limit:.0f} slots were free, and requests wait only for a slot"


def _ratio(value: float | None, before: float | None) -> float | None:
    return None if value is None or before is None or before <= 0.0 else value / before


def _inner(
    timeline: Timeline,
    signals: Sequence[tuple[str, Sequence[str]]],
    views: Mapping[str, SourceView],
    stretch: Stretch,
    before: Reference,
) -> float | None:
    period = max((views[item].info.period for _, sources in signals for item in sources if item in views), default=0.0)
    start, end = stretch.start + period, stretch.end - period
    if end - start < period:
        return None
    for signal, sources in signals:
        rate, usual = reading.rate(timeline, signal, sources, start, end), before.rate(signal, sources)
        if rate is not None and usual:
            return rate / usual
    return None


def decode_is_live(info: Source) -> bool:
    """Whether tokens.decode of that server moves with every step (or scrape), not only when a request ends."""
    return info.refresh_by_signal.get("tokens.decode", info.refresh) != "finish"


def _deferred(timeline: Timeline, metrics: Sequence[str], start: float, end: float) -> float | None:
    found = [
        timeline.mean(item, start, end)
        for item in reading.series(timeline, "sched.waiting_by_reason", metrics)
        if split_key(item.key)[1].get("reason") == "deferred"
    ]
    seen = [value for value in found if value is not None]
    return sum(seen) if seen else None


def _limits(timeline: Timeline, stretch: Stretch, before: Reference) -> tuple[str, float | None, float | None]:
    """The strongest harmful clock-event reason, its share of the stretch, and its share before."""
    best: tuple[str, float | None, float | None] = ("", None, None)
    for item in reading.series(timeline, "device.limit_seconds", stretch.devices):
        reason = split_key(item.key)[1].get("reason", "")
        grown = timeline.increase(item, stretch.start, stretch.end)
        if grown is None or reason in HARMLESS_REASONS:
            continue
        share = min(1.0, grown / (stretch.end - stretch.start))
        if best[1] is None or share > best[1]:
            earlier = before.ask(("limit", item), partial(_rate, timeline, item))
            best = (reason, share, earlier)
    if best[1] is not None:
        return best
    for item in reading.series(timeline, "device.limit_reasons", stretch.devices):
        steps = timeline.steps(item, stretch.start, stretch.end)
        if len(steps.value):
            harmful = [bool(int(value) & HARMFUL_BITS) for value in steps.value.tolist()]
            return "clock-event bits", sum(harmful) / len(harmful), None
    return best


def _rate(timeline: Timeline, item: SeriesId, start: float, end: float) -> float | None:
    grown = timeline.increase(item, start, end)
    return None if grown is None else grown / (end - start)


def _slow_calls(timeline: Timeline, start: float, end: float) -> int:
    """How often our own reading of a device was slow then; a slow scrape says something of the server instead."""
    return sum(
        1
        for item in timeline.events
        if item.what == "our_slow_call"
        and str(item.data.get("collector", "")).startswith("devices.")
        and start <= item.t <= end + SLOW_CALL_AFTER
    )


def _young(timeline: Timeline, scope: Scope, end: float) -> float | None:
    """Seconds since the server restarted, where the stream saw that."""
    restarts = [
        item.t
        for item in timeline.events
        if item.what == "server_restarted" and item.t <= end and (item.src is None or item.src in scope.all_sources)
    ]
    return end - max(restarts) if restarts else None
