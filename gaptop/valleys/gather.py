"""Collects the evidence on a stretch of time from the Timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.valleys import reading
from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.gather_cores import cores, throttled_share, unread
from gaptop.valleys.gather_device import (
    against_before,
    counters_fell,
    least_against_before,
    limits,
    link,
    longest_period,
    moved,
    own_share,
    ratio,
    slow_calls,
)
from gaptop.valleys.gather_host import stopped_roles, thread_views
from gaptop.valleys.gather_near import Gap, idle_share
from gaptop.valleys.gather_prompt import prompt_flow, prompt_late, prompt_settled
from gaptop.valleys.gather_ranks import ranks
from gaptop.valleys.gather_recompute import recomputed_flow
from gaptop.valleys.gather_server import Told
from gaptop.valleys.gather_steps import progress_between
from gaptop.valleys.model import ValleyKind
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope

LOOK_AHEAD: Final = 2.0
"""Seconds after a valley that still tell about it: vLLM counts preemptions up to 1.5 s late."""

SLOT_ENGINES: Final = frozenset({"llamacpp"})
"""Engines in which a request waits for nothing but a free slot (llama.cpp: server-queue.cpp, requests_deferred)."""

NONE_WAITS: Final = Gauge(mean=0.0, low=0.0, high=0.0, first=0.0, last=0.0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to collect evidence on: a valley or a slice of it."""

    kind: ValleyKind
    start: float
    end: float
    devices: tuple[str, ...]
    level: float | None
    part: bool = False
    """Of a valley, and not all of it."""


def gather(timeline: Timeline, scope: Scope, stretch: Stretch, before: Reference) -> Evidence:
    """The evidence on one stretch. Reads nothing later than its end plus the look-ahead."""
    start, end = stretch.start, stretch.end
    metrics, host = scope.metrics, scope.host
    busy = reading.mean(timeline, "device.busy", stretch.devices, start, end, "mean")
    others = tuple(item.source for item in scope.devices if item.source not in stretch.devices)
    power = reading.mean(timeline, "device.power", stretch.devices, start, end)
    told = tuple(source for item in scope.devices if item.source in stretch.devices for source in item.sources)
    independent = tuple(
        source
        for item in scope.devices
        if item.source in stretch.devices and not item.from_gpm
        for source in item.sources
    )
    level = stretch.level or before.mean("device.busy", stretch.devices, "mean")
    reason, limited, limited_before = limits(timeline, told, start, end, before)
    gap = _gap(stretch, busy, level)
    threads = thread_views(timeline, scope, start, end, before, gap)
    views = timeline.sources
    server = Told(timeline, metrics, start, end, before)
    running, waiting, kv = (server.gauge(name) for name in ("sched.running", "sched.waiting", "kv.used"))
    limit = reading.highest(timeline, "sched.limit", metrics, start, end)
    why = "" if waiting is not None else _none_waits(scope, running, limit)
    prefilling = server.mean("slots.prefilling")
    return Evidence(
        kind=stretch.kind,
        engine=scope.engine,
        start=start,
        end=end,
        busy=busy,
        busy_level=level,
        devices=len(stretch.devices),
        peers=len(others) if stretch.devices else 0,
        peers_busy=reading.mean(timeline, "device.busy", others, start, end, "mean") if stretch.devices else None,
        power=power,
        energy_ratio=ratio(
            reading.rate(timeline, "device.energy", stretch.devices, start, end),
            before.rate("device.energy", stretch.devices),
        ),
        sm_ratio=against_before(timeline, "device.sm_active", told, start, end, before),
        dram_ratio=against_before(timeline, "device.dram_active", told, start, end, before),
        counters_fell=counters_fell(timeline, independent, start, end, level, busy, before),
        power_every=longest_period(views, "device.power", stretch.devices),
        moved=moved(timeline, stretch.devices, start, end, before),
        link=link(timeline, stretch.devices, start, end, before),
        power_ratio=ratio(power, before.mean("device.power", stretch.devices)),
        clock_ratio=least_against_before(timeline, "device.clock_sm", stretch.devices, start, end, before),
        limit_share=limited,
        limit_share_before=limited_before,
        limit_reason=reason,
        foreign=reading.highest(timeline, "device.foreign_processes", stretch.devices, start, end),
        foreign_before=before.mean("device.foreign_processes", stretch.devices),
        is_cpu=any(item.is_cpu for item in scope.devices if item.source in stretch.devices),
        spinning=reading.mean(timeline, "device.spinning", stretch.devices, start, end, "mean"),
        running=running,
        waiting=NONE_WAITS if why else waiting,
        waiting_why=why,
        deferred=server.deferred(),
        gauges_every=server.gauges_every,
        limit=limit,
        kv=kv,
        recomputed_flow=recomputed_flow(timeline, metrics, start, end, kv, running, before),
        preemptions=reading.increase(timeline, "sched.preemptions", metrics, start, end + LOOK_AHEAD)
        or reading.increase(timeline, "sched.preemptions", metrics, start, end),
        finished=reading.increase(timeline, "sched.finished", metrics, start, end),
        sleeping=reading.highest(timeline, "sched.sleeping", metrics, start, end),
        awake_for=server.awake_for(),
        hit_ratio=server.hit_ratio(),
        hit_ratio_before=ratio(server.usual("kv.hits"), server.usual("kv.queries")),
        in_flight=server.gauge("sched.in_flight"),
        connections=reading.gauge(
            timeline, "host.connections", host, start, end, _period(views, host), before.mean("host.connections", host)
        ),
        unread=unread(timeline, host, start, end, before),
        tokens_every=server.counted_every("tokens.decode"),
        decode_rate=server.rate("tokens.decode"),
        decode_before=server.usual("tokens.decode"),
        prompt_rate=server.rate("tokens.prompt"),
        prompt_before=server.usual("tokens.prompt"),
        prompt_flow=prompt_flow(timeline, metrics, start, end, before),
        prompt_late=prefilling is None and prompt_late(views, metrics),
        prompt_settled=prompt_settled(timeline, metrics, end),
        prefilling=prefilling,
        step_rate=server.rate("step.count"),
        step_before=server.usual("step.count"),
        inner_progress=_inner_progress(server),
        scrape_latency=reading.highest(timeline, "latency.scrape", metrics, start, end),
        scrape_before=before.mean("latency.scrape", metrics),
        threads=threads,
        stacks_seen=any(item.activities is not None for item in threads),
        states_seen=any(item.on_cpu is not None for item in threads),
        stopped=stopped_roles(timeline, scope, start, end),
        compilers=reading.highest(timeline, "host.compilers", host, start, end),
        compilers_before=before.mean("host.compilers", host),
        children_rate=reading.rate(timeline, "host.children_seconds", host, start, end + LOOK_AHEAD),
        children_before=before.rate("host.children_seconds", host),
        throttled_share=throttled_share(timeline, host, start, end),
        throttled_before=before.ask(("throttled", *host), partial(throttled_share, timeline, host)),
        cores=cores(timeline, scope, threads, start, end, before),
        ranks=ranks(timeline, scope, start, end),
        cores_used=reading.rate(timeline, "host.cpu_seconds", host, start, end),
        cores_used_before=before.rate("host.cpu_seconds", host),
        major_faults=reading.rate(timeline, "host.major_faults", host, start, end),
        major_faults_before=before.rate("host.major_faults", host),
        young_seconds=_young(timeline, scope, end),
        slow_calls=slow_calls(timeline, start, end),
        own_share=own_share(timeline, stretch.devices, start, end, before),
    )


def _gap(stretch: Stretch, busy: float | None, level: float | None) -> Gap | None:
    """What is a whole gap, in which the devices idled for most of the time; a part of a valley is none, as what lies
    beside it is no ordinary time."""
    if stretch.part or stretch.kind != "utilisation" or busy is None or not level or busy >= 0.5 * level:
        return None
    length = stretch.end - stretch.start
    return Gap(stretch.start, stretch.end, length * idle_share(busy, level), stretch.devices, level)


def _inner_progress(server: Told) -> float | None:
    """By the period that the source states, and where the stretch is too short for that by its readings as they came:
    a source may read more often than it promises."""
    known = server.inner_progress()
    if known is not None:
        return known
    counted = (("step.count", server.metrics), ("tokens.decode", server.live))
    return progress_between(server.timeline, counted, server.start, server.end, server.before)


def _period(views: Mapping[str, SourceView], sources: Sequence[str]) -> float:
    return max((views[item].info.period for item in sources if item in views), default=0.0)


def _none_waits(scope: Scope, running: Gauge | None, limit: float | None) -> str:
    """Why no request can have waited although waiting was not told ("": nothing says so)."""
    if scope.engine not in SLOT_ENGINES or running is None or limit is None or running.high >= limit:
        return ""
    return f"not told, but {limit - running.high:.0f} of {limit:.0f} slots were free, and requests wait only for a slot"


def _young(timeline: Timeline, scope: Scope, end: float) -> float | None:
    """Seconds since the server restarted, where the stream saw that."""
    restarts = [
        item.t
        for item in timeline.events
        if item.what == "server_restarted" and item.t <= end and (item.src is None or item.src in scope.all_sources)
    ]
    return end - max(restarts) if restarts else None
