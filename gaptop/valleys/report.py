"""The machine form of the report. Keys are stable: add, never rename. ``None`` is "not measured", 0 a measured zero."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gaptop import __version__
from gaptop.recording.lines import Health
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.valleys import ledger, reading
from gaptop.valleys.model import Assessment, LedgerRow, Plateau, Valley
from gaptop.valleys.scope import label_of

SCHEMA: Final = 1
DIGITS: Final = 4
"""Seconds and ratios are rounded to a tenth of a millisecond: far under every bound, and the same everywhere."""


def build(timeline: Timeline, assessment: Assessment, *, window: tuple[float, float] | None) -> dict[str, Any]:
    """The report on the whole stream, or on ``window`` (seconds since its start)."""
    views = timeline.sources
    start, end = window if window is not None else (_first(views), assessment.now)
    end = max(start, end)
    valleys = [item for item in assessment.valleys if _touches(item, start, end)]
    plateaus = [item for item in assessment.plateaus if item.end_s > start and item.start_s < end]
    rows = assessment.ledger if window is None else _ledger(timeline, views, valleys, start, end)
    header = timeline.header
    return {
        "schema": SCHEMA,
        "gaptop": __version__,
        "source": {
            "host": dict(header.host) if header is not None else None,
            "servers": _servers(views),
            "devices": _devices(views),
            "simulated": header.simulated if header is not None else False,
        },
        "window": {"start_utc": _utc(timeline, start), "start_s": _round(start), "seconds": _round(end - start)},
        "health": _health(timeline, views, start, end),
        "valleys": [valley_json(timeline, item) for item in valleys],
        "plateaus": [_plateau(timeline, item) for item in plateaus],
        "ledger": [_ledger_row(item) for item in rows],
        "self": _self(timeline),
        "ended": assessment.ended,
        "sentence": assessment.sentence,
        "hints": list(assessment.hints),
    }


def valley_json(timeline: Timeline, valley: Valley) -> dict[str, Any]:
    """One valley in the report's form; also a line of ``--stream`` and of a snapshot.

    ``end_s`` is null and ``final`` false while it is open, also where watching ended before it did.
    """
    said = valley.verdict
    return {
        "id": valley.id,
        "kind": valley.kind,
        "devices": list(valley.devices),
        "start_s": _round(valley.start_s),
        "end_s": _round(valley.end_s),
        "start_error_s": _round(valley.start_error_s),
        "end_error_s": _round(valley.end_error_s),
        "start_utc": _utc(timeline, valley.start_s),
        "depth_ratio": _round(valley.depth_ratio),
        "idle_s": _round(valley.idle_s),
        "idle_error_s": _round(valley.idle_error_s),
        "confirmed": valley.confirmed,
        "tokens_lost": None if valley.tokens_lost is None else round(valley.tokens_lost, 1),
        "tokens_shared_with": list(valley.tokens_shared_with),
        "became_level": valley.became_level,
        "cause": said.cause,
        "detail": said.detail,
        "confidence": said.confidence,
        "final": valley.final,
        "score": said.score,
        "runner_up": None if said.runner_up is None else {"cause": said.runner_up[0], "score": said.runner_up[1]},
        "segments": [
            {"start_s": _round(item.start_s), "end_s": _round(item.end_s), "cause": item.cause}
            for item in said.segments
        ],
        "evidence": [
            {"signal": item.signal, "value": _round(item.value), "unit": item.unit, "says": item.says}
            for item in said.evidence
        ],
        "excluded": [{"cause": item.cause, "because": item.because} for item in said.excluded],
        "unseen": list(said.unseen),
        "advice": said.advice,
        "chain": [
            {
                "link": item.link,
                "state": item.state,
                "signal": item.signal,
                "value": _round(item.value),
                "says": item.says,
            }
            for item in said.chain
        ],
    }


def _round(value: float | None) -> float | None:
    # Adding zero turns -0.0 into 0.0, which would read as another number.
    return None if value is None else round(float(value), DIGITS) + 0.0


def _utc(timeline: Timeline, t: float) -> str | None:
    """Wall-clock time by the stream's start; None where the stream has no readable one."""
    if timeline.header is None:
        return None
    try:
        start = datetime.fromisoformat(timeline.header.start_utc)
        return (start + timedelta(seconds=round(t, 3))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return None


def _first(views: Mapping[str, SourceView]) -> float:
    return max(0.0, min((view.info.t for view in views.values()), default=0.0))


def _touches(valley: Valley, start: float, end: float) -> bool:
    return valley.start_s < end and (valley.end_s is None or valley.end_s > start)


def _servers(views: Mapping[str, SourceView]) -> list[dict[str, Any]]:
    found = []
    for source in sorted(views):
        info = views[source].info
        if info.kind == "server" and source.startswith("metrics/"):
            entity = info.entity
            url = entity.get("url") or label_of(source)
            found.append({"url": url, **{key: entity.get(key) for key in ("engine", "version", "model", "pids")}})
    return found


def _devices(views: Mapping[str, SourceView]) -> list[dict[str, Any]]:
    found = []
    for source in sorted(views):
        info = views[source].info
        if info.kind == "device":
            entity = info.entity
            names = {"uuid": str(entity.get("uuid") or label_of(source)), "name": entity.get("name")}
            rest = {"kind": entity.get("kind2"), "index": entity.get("index"), "pids": entity.get("pids")}
            window = {"window_seconds": _round(info.window), "window_measured": info.window_measured}
            found.append({**names, **rest, **window})
    return found


def _health(timeline: Timeline, views: Mapping[str, SourceView], start: float, end: float) -> list[dict[str, Any]]:
    """Every source, and every collector that never got as far as one; one that did is told by its sources."""
    found = []
    with_sources = {view.info.collector for view in views.values()}
    for source in sorted({*views, *timeline.health}):
        view, health = views.get(source), timeline.health.get(source)
        if view is None and source in with_sources and health is not None and health.state in ("ok", "ended"):
            continue
        newest = view.newest if view is not None else None
        if newest is None and health is not None:
            newest = health.newest
        found.append(
            {
                "source": source,
                "collector": health.collector if health is not None else view.info.collector if view else None,
                "state": health.state if health is not None else "starting",
                "coverage_ratio": _round(_coverage(timeline, view, start, end)),
                "period_seconds": _round(_period(view, health)),
                "age_seconds": None if newest is None else _round(max(0.0, timeline.now - newest)),
                "says": (health.says if health is not None else "") or (view.info.says if view is not None else ""),
            }
        )
    return found


def _period(view: SourceView | None, health: Health | None) -> float | None:
    if health is not None and health.period is not None:
        return health.period
    return None if view is None else view.info.period


def _coverage(timeline: Timeline, view: SourceView | None, start: float, end: float) -> float | None:
    """Share of the window that its best covered signal was seen; None for a source that delivered nothing yet."""
    if view is None or end <= start:
        return None
    source = view.info.id
    if source.startswith("threads/"):
        return min(1.0, timeline.watched(source, start, end) / (end - start))
    found = [
        timeline.coverage(item, start, end) for signal in view.info.signals for item in timeline.ids(signal, source)[:1]
    ]
    return max(found) if found else None


def _plateau(timeline: Timeline, item: Plateau) -> dict[str, Any]:
    return {
        "device": item.device,
        "start_s": _round(item.start_s),
        "end_s": _round(item.end_s),
        "start_utc": _utc(timeline, item.start_s),
        "busy_ratio": _round(item.busy_ratio),
        "idle_per_step_s": None if item.idle_per_step_s is None else round(item.idle_per_step_s, 6),
        "continues": item.continues,
    }


def _ledger_row(item: LedgerRow) -> dict[str, Any]:
    return {
        "device": item.device,
        "cause": item.cause,
        "valleys": item.valleys,
        "device_seconds": _round(item.device_seconds),
        "tokens_lost": None if item.tokens_lost is None else round(item.tokens_lost, 1),
        "tokens_unknown": item.tokens_unknown,
        "share_ratio": _round(item.share_ratio),
    }


def _ledger(
    timeline: Timeline, views: Mapping[str, SourceView], valleys: list[Valley], start: float, end: float
) -> tuple[LedgerRow, ...]:
    """The ledger of a part of the stream; a valley that reaches beyond it counts with the share inside."""
    times = []
    for source in sorted(views):
        if views[source].info.kind == "device":
            label = str(views[source].info.entity.get("uuid") or label_of(source))
            for item in timeline.ids("device.busy", source)[:1]:
                seen = timeline.coverage(item, start, end) * (end - start)
                busy = (reading.mean(timeline, "device.busy", (source,), start, end, "mean") or 0.0) * seen
                times.append(ledger.DeviceTime(label, seen, busy, 0.0))
    servers = [label_of(source) for source in sorted(views) if source.startswith("metrics/")]
    server = servers[0] if servers else "server"
    lost = [loss for valley in valleys for loss in ledger.losses(valley, server, start, end)]
    return ledger.rows(times, lost)


def _self(timeline: Timeline) -> dict[str, Any]:
    cost = timeline.self_cost
    return {
        "cpu_seconds": None if cost is None else _round(cost.cpu_seconds),
        "rss_bytes": None if cost is None else cost.rss_bytes,
        "py_spy_cpu_seconds": None if cost is None else _round(cost.py_spy_cpu_seconds),
        "cpu_ratio": None if cost is None or cost.t <= 0.0 else _round(cost.cpu_seconds / cost.t),
    }
