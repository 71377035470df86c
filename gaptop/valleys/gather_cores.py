"""Whether the server's threads could have a core: what they wanted, what they may use, and who else used it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId
from gaptop.valleys import reading
from gaptop.valleys.evidence import Cores, Gauge, ThreadView
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope
from gaptop_collectors.signals import series_key

WANTED: Final = 0.2
"""Who used the cores is asked where a critical thread waited for one this share of the time, or was not seen."""


def throttled_share(timeline: Timeline, host: Sequence[str], start: float, end: float) -> float | None:
    """Share of the time that the server's cgroup was held back by its CPU quota.

    By periods of the quota where they are told: the kernel adds the held-back time up over all cores.
    """
    periods = reading.increase(timeline, "host.quota_periods", host, start, end)
    held = reading.increase(timeline, "host.throttled_periods", host, start, end)
    if periods is not None and held is not None:
        return held / periods if periods > 0.0 else 0.0
    seconds = reading.rate(timeline, "host.throttled", host, start, end)
    return None if seconds is None else min(1.0, seconds)


def unread(timeline: Timeline, host: Sequence[str], start: float, end: float, before: Reference) -> Gauge | None:
    """Connections that wait for the front end to accept or to read them; None where neither was seen."""
    views = timeline.sources
    period = max((views[item].info.period for item in host if item in views), default=0.0)
    parts = [
        reading.gauge(timeline, signal, host, start, end, period, before.mean(signal, host))
        for signal in ("host.unaccepted", "host.unread")
    ]
    found = [item for item in parts if item is not None]
    if not found:
        return None
    return Gauge(
        mean=sum(item.mean for item in found),
        low=sum(item.low for item in found),
        high=sum(item.high for item in found),
        first=sum(item.first for item in found),
        last=sum(item.last for item in found),
        before=sum(item.before or 0.0 for item in found),
    )


def cores(
    timeline: Timeline,
    scope: Scope,
    threads: Sequence[ThreadView],
    start: float,
    end: float,
    before: Reference,
) -> Cores:
    """All of it where a critical thread wanted a core or nobody saw one; else only what no thread's state tells."""
    steal = reading.mean(timeline, "host.steal", scope.host, start, end, "max")
    told = Cores(
        steal=steal,
        steal_before=before.mean("host.steal", scope.host, "max") if steal else None,
        frequency=_least(timeline, "host.core_frequency", scope.host, start, end),
        frequency_max=reading.highest(timeline, "host.core_frequency_max", scope.host, start, end),
    )
    wants = [item.wants_cpu for item in threads if item.critical]
    if any(item is not None for item in wants) and all((item or 0.0) < WANTED for item in wants):
        return told
    runnable, allowed = _crowd(timeline, scope, start, end)
    return replace(
        told,
        runnable=runnable,
        allowed=allowed,
        quota=_least(timeline, "host.quota_cores", scope.host, start, end),
        host=_host_cores(timeline, scope),
        host_busy=reading.mean(timeline, "host.busy", scope.host, start, end, "max"),
        pressure=_pressure(timeline, scope.host, start, end),
    )


def _crowd(timeline: Timeline, scope: Scope, start: float, end: float) -> tuple[float | None, float | None]:
    """Runnable threads and allowed cores of the most crowded process; of all of them where they share their cores."""
    found: list[tuple[float | None, float | None]] = []
    for process in scope.states:
        item = SeriesId(process.source, series_key("host.runnable_threads", pid=process.pid))
        runnable = reading.seen_mean(timeline, item, start, end)
        key = series_key("host.allowed_cores", pid=process.pid)
        allowed = [timeline.extremes(SeriesId(source, key), start, end) for source in scope.host]
        least = [seen[0] for seen in allowed if seen is not None]
        found.append((runnable, min(least) if least else None))
    masks = {allowed for _, allowed in found}
    seen_all = [runnable for runnable, _ in found if runnable is not None]
    if len(found) > 1 and len(masks) == 1 and len(seen_all) == len(found):
        return sum(seen_all), found[0][1]
    return max(found, key=lambda pair: (pair[0] or 0.0) / (pair[1] or 1.0), default=(None, None))


def _least(timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float) -> float | None:
    found = [timeline.extremes(item, start, end) for item in reading.series(timeline, signal, sources)]
    return min((seen[0] for seen in found if seen is not None), default=None)


def _host_cores(timeline: Timeline, scope: Scope) -> float | None:
    """Cores of the machine, as the sources that tell of the whole host state them."""
    views = timeline.sources
    told = [views[source].info.entity.get("cores") for source in scope.host if source in views]
    return max((float(item) for item in told if isinstance(item, int)), default=None)


def _pressure(timeline: Timeline, host: Sequence[str], start: float, end: float) -> float | None:
    """Seconds a second in which some task of the server's cgroup waited for a core."""
    key = series_key("host.group_pressure", resource="cpu")
    for source in host:
        item = SeriesId(source, key)
        grown = timeline.increase(item, start, end)
        if grown is not None:
            return grown / (timeline.coverage(item, start, end) * (end - start))
    return None
