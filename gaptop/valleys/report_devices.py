"""The devices' part of the report: what each is and how it is measured, and the ledger of a part of the stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView, Steps
from gaptop.valleys import ledger
from gaptop.valleys.idle_time import Taken, by_cause
from gaptop.valleys.member import Watched
from gaptop.valleys.model import Assessment, LedgerRow, Rounded, Valley
from gaptop.valleys.rounding import centred
from gaptop.valleys.scope import device_label

DIGITS: Final = 4
"""Seconds and ratios are rounded to a tenth of a millisecond: far under every bound, and the same everywhere."""


def rounded(value: float | None) -> float | None:
    """A number as the report shows it."""
    # Adding zero turns -0.0 into 0.0, which would read as another number.
    return None if value is None else round(float(value), DIGITS) + 0.0


def devices_json(views: Mapping[str, SourceView], rounding: Iterable[Rounded]) -> list[dict[str, Any]]:
    """Every source of a device: what it is, and what its duty cycle can show.

    ``busy_unsupported`` says why it has none (null where it has one).
    """
    learnt = {item.device: item for item in rounding}
    found = []
    for source in sorted(views):
        info = views[source].info
        if info.kind != "device":
            continue
        entity, name = info.entity, device_label(info)
        known = learnt.get(name)
        found.append(
            {
                "uuid": name,
                "name": entity.get("name"),
                "kind": entity.get("kind2"),
                "index": entity.get("index"),
                "pids": entity.get("pids"),
                "window_seconds": rounded(info.window_by_signal.get("device.busy", info.window)),
                "window_measured": info.window_measured,
                "source": source,
                "parent": entity.get("parent"),
                "slice": entity.get("slice"),
                "jitter_seconds": rounded(info.jitter),
                "lag_seconds": rounded(info.lag),
                "clock_error_seconds": rounded(info.error),
                "rounding": known.rounding if known is not None and info.rounding else info.rounding,
                "rounding_learnt": known is not None and known.learnt and info.rounding == "percent",
                "busy_unsupported": info.unsupported.get("device.busy"),
            }
        )
    return found


def ledger_of(
    timeline: Timeline, assessment: Assessment, valleys: Sequence[Valley], start: float, end: float
) -> tuple[LedgerRow, ...]:
    """The ledger of a part of the stream: a valley that reaches beyond it counts with what is inside, and of its
    devices only those count that ``assessment`` is about."""
    rounding = {item.device: item.rounding for item in assessment.rounding}
    times, taken, counted = [], Taken(), {}
    for item in assessment.watched:
        first, last = max(start, item.since_s), min(end, item.reached_s)
        if first >= last:
            continue
        times.append(_time_of(timeline, item, rounding.get(item.device, ""), first, last))
        counted[item.source] = min(end, item.counted_to_s)
        if item.judged_from_s is not None:
            taken.until(item.source, item.judged_from_s)
    lost: list[ledger.Loss] = []
    for valley in sorted(valleys, key=lambda item: not item.final):
        idle = by_cause(timeline, valley, taken, start=start, counted=counted, rounding=rounding)
        lost += ledger.losses(valley, valley.server or "server", idle, start, end)
    mine = {item.device for item in assessment.watched}
    others = {name for valley in valleys for name in valley.devices if mine and name not in mine}
    return tuple(row for row in ledger.rows(times, lost) if row.device not in others)


def _time_of(timeline: Timeline, item: Watched, rounding: str, start: float, end: float) -> ledger.DeviceTime:
    """What was measured of a device inside [start, end], by the middle of what each reading stands for."""
    until = min(end, item.counted_to_s)
    ids = timeline.ids("device.busy", item.source)
    steps = timeline.steps(ids[0], start, until) if ids else Steps(np.zeros(0), np.zeros(0), np.zeros(0))
    busy = np.minimum(centred(np.clip(steps.value, 0.0, 1.0), rounding), 1.0)
    lengths = np.clip(np.minimum(steps.end, until) - np.maximum(steps.start, start), 0.0, None)
    seen = float(lengths.sum())
    judged = math.inf if item.judged_from_s is None else item.judged_from_s
    early = np.clip(np.minimum(steps.end, min(until, judged)) - np.maximum(steps.start, start), 0.0, None)
    unjudged = float(((1.0 - busy) * early).sum())
    return ledger.DeviceTime(item.device, seen, float((busy * lengths).sum()), unjudged, max(0.0, end - start - seen))
