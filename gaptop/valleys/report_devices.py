"""The devices' part of the report: what each is and how it is measured, and the ledger of a part of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView
from gaptop.valleys import ledger
from gaptop.valleys.model import LedgerRow, Rounded, Valley
from gaptop.valleys.rounding import centred
from gaptop.valleys.scope import device_label, label_of, measured

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
    timeline: Timeline, valleys: Sequence[Valley], rounding: Mapping[str, str], start: float, end: float
) -> tuple[LedgerRow, ...]:
    """The ledger of a part of the stream; a valley that reaches beyond it counts with the share inside."""
    views = timeline.sources
    times = []
    for device in measured([views[source].info for source in sorted(views) if views[source].info.kind == "device"]):
        for item in timeline.ids("device.busy", device.source)[:1]:
            seen = timeline.coverage(item, start, end) * (end - start)
            busy = _busy_seconds(timeline, item, rounding.get(device.label, ""), start, end)
            times.append(ledger.DeviceTime(device.label, seen, busy, 0.0))
    servers = [label_of(source) for source in sorted(views) if source.startswith("metrics/")]
    server = servers[0] if servers else "server"
    lost = [loss for valley in valleys for loss in ledger.losses(valley, server, start, end)]
    return ledger.rows(times, lost)


def _busy_seconds(timeline: Timeline, item: SeriesId, rounding: str, start: float, end: float) -> float:
    """Seconds busy inside [start, end], by the middle of what each reading stands for."""
    steps = timeline.steps(item, start, end)
    lengths = np.clip(np.minimum(steps.end, end) - np.maximum(steps.start, start), 0.0, None)
    return float((centred(np.clip(steps.value, 0.0, 1.0), rounding) * lengths).sum())
