"""The machine form of the report. Keys are stable: add, never rename. ``None`` is "not measured", 0 a measured zero."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gaptop import __version__
from gaptop.recording.lines import Health
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.valleys.coverage import coverage_json
from gaptop.valleys.dips import counted
from gaptop.valleys.model import Assessment, DipCount, LedgerRow, Plateau, ShallowDip, ThreadStacks, Valley
from gaptop.valleys.period import periods
from gaptop.valleys.report_devices import devices_json, ledger_of, rounded
from gaptop.valleys.report_events import events_json
from gaptop.valleys.report_recurring import periods_json, trends_json
from gaptop.valleys.scope import label_of
from gaptop.valleys.trends import trends

SCHEMA: Final = 1


def build(timeline: Timeline, assessment: Assessment, *, window: tuple[float, float] | None) -> dict[str, Any]:
    """The report on the whole stream, or on ``window`` (seconds since its start)."""
    views = timeline.sources
    start, end = window if window is not None else (_first(views), assessment.now)
    end = max(start, end)
    valleys = [item for item in assessment.valleys if _touches(item, start, end)]
    plateaus = [item for item in assessment.plateaus if item.end_s > start and item.start_s < end]
    dips = tuple(item for item in assessment.dips if item.end_s > start and item.start_s < end)
    counts = assessment.dip_counts if window is None else counted(dips)
    rows = assessment.ledger
    if window is not None:
        rows = ledger_of(timeline, assessment, valleys, start, end)
    samples = [item for item in assessment.samples if start <= item.start_s < end]
    header = timeline.header
    return {
        "schema": SCHEMA,
        "gaptop": __version__,
        "source": {
            "host": dict(header.host) if header is not None else None,
            "servers": _servers(views),
            "devices": devices_json(views, assessment.rounding),
            "simulated": header.simulated if header is not None else False,
        },
        "window": {"start_utc": _utc(timeline, start), "start_s": rounded(start), "seconds": rounded(end - start)},
        "health": _health(timeline, views, start, end),
        "coverage": coverage_json(timeline, start, end),
        "valleys": [valley_json(timeline, item) for item in valleys],
        "plateaus": [_plateau(timeline, item) for item in plateaus],
        "dips": [dip_json(timeline, item) for item in dips],
        "dip_counts": [_dip_count(item) for item in counts],
        "ledger": [_ledger_row(item) for item in rows],
        "trends": trends_json(trends(samples) if window is not None else assessment.trends),
        "period": periods_json(periods(samples) if window is not None else assessment.periods),
        "events": events_json(timeline, window, lambda t: _utc(timeline, t)),
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
        "server": valley.server or None,
        "devices": list(valley.devices),
        "start_s": rounded(valley.start_s),
        "end_s": rounded(valley.end_s),
        "start_error_s": rounded(valley.start_error_s),
        "end_error_s": rounded(valley.end_error_s),
        "start_utc": _utc(timeline, valley.start_s),
        "depth_ratio": rounded(valley.depth_ratio),
        "idle_s": rounded(valley.idle_s),
        "idle_error_s": rounded(valley.idle_error_s),
        "longest_gap_s": None if valley.longest_gap_s is None else [rounded(item) for item in valley.longest_gap_s],
        "confirmed": valley.confirmed,
        "agreeing": list(valley.agreeing),
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
            {"start_s": rounded(item.start_s), "end_s": rounded(item.end_s), "cause": item.cause}
            for item in said.segments
        ],
        "evidence": [
            {"signal": item.signal, "value": rounded(item.value), "unit": item.unit, "says": item.says}
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
                "value": rounded(item.value),
                "says": item.says,
            }
            for item in said.chain
        ],
        "stacks": [_stacks(item) for item in valley.stacks],
    }


def _stacks(item: ThreadStacks) -> dict[str, Any]:
    return {
        "process": item.process,
        "pid": item.pid,
        "role": item.role,
        "thread": item.thread,
        "tid": item.tid,
        "seen_s": rounded(item.seen_s),
        "unseen_s": rounded(item.unseen_s),
        "paths": [
            {
                "share_ratio": rounded(path.share_ratio),
                "activity": path.activity,
                "frames": [{"function": name, "file": file, "line": line} for name, file, line in path.frames],
            }
            for path in item.paths
        ],
    }


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


def _health(timeline: Timeline, views: Mapping[str, SourceView], start: float, end: float) -> list[dict[str, Any]]:
    """Every source, and every collector that never got as far as one; one that did is told by its sources."""
    found = []
    with_sources = {view.info.collector for view in views.values()}
    # As the runner calls it, which tells the collectors of several servers apart.
    with_sources |= {health.collector for source, health in timeline.health.items() if source in views}
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
                "coverage_ratio": rounded(_coverage(timeline, view, start, end)),
                "period_seconds": rounded(_period(view, health)),
                "age_seconds": None if newest is None else rounded(max(0.0, timeline.now - newest)),
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
        "start_s": rounded(item.start_s),
        "end_s": rounded(item.end_s),
        "start_utc": _utc(timeline, item.start_s),
        "busy_ratio": rounded(item.busy_ratio),
        "idle_per_step_s": None if item.idle_per_step_s is None else round(item.idle_per_step_s, 6),
        "continues": item.continues,
    }


def dip_json(timeline: Timeline, item: ShallowDip) -> dict[str, Any]:
    """One shallow dip in the report's form."""
    return {
        "device": item.device,
        "start_s": rounded(item.start_s),
        "end_s": rounded(item.end_s),
        "start_error_s": rounded(item.start_error_s),
        "end_error_s": rounded(item.end_error_s),
        "start_utc": _utc(timeline, item.start_s),
        "idle_s": rounded(item.idle_s),
        "idle_error_s": rounded(item.idle_error_s),
        "longest_gap_s": [rounded(bound) for bound in item.longest_gap_s],
        "confirmed": item.confirmed,
        "agreeing": list(item.agreeing),
    }


def _dip_count(item: DipCount) -> dict[str, Any]:
    return {
        "device": item.device,
        "dips": item.dips,
        "confirmed": item.confirmed,
        "idle_s": rounded(item.idle_s),
        "idle_error_s": rounded(item.idle_error_s),
    }


def _ledger_row(item: LedgerRow) -> dict[str, Any]:
    return {
        "device": item.device,
        "cause": item.cause,
        "valleys": item.valleys,
        "device_seconds": rounded(item.device_seconds),
        "tokens_lost": None if item.tokens_lost is None else round(item.tokens_lost, 1),
        "tokens_unknown": item.tokens_unknown,
        "share_ratio": rounded(item.share_ratio),
    }


def _self(timeline: Timeline) -> dict[str, Any]:
    cost = timeline.self_cost
    return {
        "cpu_seconds": None if cost is None else rounded(cost.cpu_seconds),
        "rss_bytes": None if cost is None else cost.rss_bytes,
        "py_spy_cpu_seconds": None if cost is None else rounded(cost.py_spy_cpu_seconds),
        "cpu_ratio": None if cost is None or cost.t <= 0.0 else rounded(cost.cpu_seconds / cost.t),
    }
