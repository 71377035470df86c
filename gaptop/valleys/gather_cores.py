"""Whether the server's threads could have a core: what they wanted, what they may use, and who else used it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

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
    """Share of the time that the server's cgroup was held back by its CPU quota, at most.

    The kernel adds the held-back time up over all cores, and counts a period as held back however short of it was: each
    alone says too much, so that the lesser of the two is told.
    """
    periods = reading.increase(timeline, "host.quota_periods", host, start, end)
    held = reading.increase(timeline, "host.throttled_periods", host, start, end)
    seconds = reading.rate(timeline, "host.throttled", host, start, end)
    told = [] if seconds is None else [min(1.0, seconds)]
    if periods is not None and held is not None:
        told.append(held / periods if periods > 0.0 else 0.0)
    return min(told, default=None)


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
    crowd = _crowd(timeline, scope, start, end)
    return replace(
        told,
        runnable=crowd.runnable,
        allowed=crowd.allowed,
        used=crowd.used,
        quota=_least(timeline, "host.quota_cores", scope.host, start, end),
        host=_host_cores(timeline, scope),
        host_busy=reading.mean(timeline, "host.busy", scope.host, start, end, "max"),
        pressure=_pressure(timeline, scope.host, start, end),
    )


class _Crowd(NamedTuple):
    """Runnable threads of a process, the cores that it may use, and those that its threads did use."""

    runnable: float | None
    allowed: float | None
    used: float | None


def _crowd(timeline: Timeline, scope: Scope, start: float, end: float) -> _Crowd:
    """Of the most crowded process; of all of them where they share their cores."""
    found: list[_Crowd] = []
    for process in scope.states:
        item = SeriesId(process.source, series_key("host.runnable_threads", pid=process.pid))
        runnable = reading.seen_mean(timeline, item, start, end)
        key = series_key("host.allowed_cores", pid=process.pid)
        allowed = [timeline.extremes(SeriesId(source, key), start, end) for source in scope.host]
        least = [seen[0] for seen in allowed if seen is not None]
        used = _grown(timeline, scope.host, series_key("host.cpu_seconds", pid=process.pid), start, end)
        found.append(_Crowd(runnable, min(least) if least else None, used))
    masks = {item.allowed for item in found}
    seen_all = [item.runnable for item in found if item.runnable is not None]
    if len(found) > 1 and len(masks) == 1 and len(seen_all) == len(found):
        used_all = [item.used for item in found if item.used is not None]
        return _Crowd(sum(seen_all), found[0].allowed, sum(used_all) if len(used_all) == len(found) else None)
    nobody = _Crowd(None, None, None)
    return max(found, key=lambda item: (item.runnable or 0.0) / (item.allowed or 1.0), default=nobody)


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
    return _grown(timeline, host, series_key("host.group_pressure", resource="cpu"), start, end)


def _grown(timeline: Timeline, host: Sequence[str], key: str, start: float, end: float) -> float | None:
    """A counter's increase a second over what was seen, from the first source that tells it."""
    for source in host:
        item = SeriesId(source, key)
        grown = timeline.increase(item, start, end)
        if grown is not None:
            return grown / (timeline.coverage(item, start, end) * (end - start))
    return None
