"""The device's part of the evidence: limits, counters, traffic, and what our own calls took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView
from gaptop.valleys import reading
from gaptop.valleys.evidence import Traffic
from gaptop.valleys.reference import Reference
from gaptop.valleys.witnesses import COUNTERS, HALF
from gaptop_collectors.signals import split_key

HARMLESS_REASONS: Final = frozenset(
    {"idle", "gpu_idle", "low_utilization", "applications_clocks", "applications_clocks_setting", "display_clock"}
    | {"display_clock_setting", "sync_boost", "none"}
)
"""Clock-event reasons that do not mean a limit: an idle card lowers its clocks by itself."""

SLOW_CALL_BEFORE: Final = 0.25
"""Seconds before a slow call's end that it is taken to have reached back to, at least: a drain and a window."""

HARMFUL_BITS: Final = 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x200 | 0x400
"""NVML's clocks-event bits for power, thermal, board and reliability limits (nvml.h)."""

WAYS: Final = (
    ("device.pcie_rx", "to the device over PCIe"),
    ("device.pcie_tx", "from the device over PCIe"),
    ("device.nvlink_rx", "to the device over NVLink"),
    ("device.nvlink_tx", "from the device over NVLink"),
)


def against_before(
    timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float, before: Reference
) -> float | None:
    """The mean of a signal over devices against the time before."""
    return ratio(reading.mean(timeline, signal, sources, start, end, "mean"), before.mean(signal, sources, "mean"))


def least_against_before(
    timeline: Timeline, signal: str, sources: Sequence[str], start: float, end: float, before: Reference
) -> float | None:
    """The same of the one device that lost most."""
    found = [against_before(timeline, signal, (source,), start, end, before) for source in sources]
    return min((item for item in found if item is not None), default=None)


def ratio(value: float | None, before: float | None) -> float | None:
    """A value against the one before; None where either was not seen, or there was nothing before."""
    return None if value is None or before is None or before <= 0.0 else value / before


def counters_fell(
    timeline: Timeline,
    sources: Sequence[str],
    start: float,
    end: float,
    level: float | None,
    busy: float | None,
    before: Reference,
) -> tuple[str, ...]:
    """Hardware counters that lost at least half as much of their usual as the duty cycle did of its own."""
    lost = ratio(busy, level)
    if lost is None or lost >= 1.0:
        return ()
    shares = {signal: against_before(timeline, signal, sources, start, end, before) for signal in COUNTERS}
    return tuple(signal for signal, left in shares.items() if left is not None and 1.0 - left >= HALF * (1.0 - lost))


def longest_period(views: Mapping[str, SourceView], signal: str, sources: Sequence[str]) -> float | None:
    """Seconds between two readings of a signal, as its slowest source states them."""
    infos = [views[item].info for item in sources if item in views]
    return max((info.period_by_signal.get(signal, info.period) for info in infos), default=None)


def moved(timeline: Timeline, sources: Sequence[str], start: float, end: float, before: Reference) -> Traffic | None:
    """The way in or out whose traffic rose most; None where none was counted."""
    found = _traffic(timeline, sources, start, end, before)
    return max(found, key=lambda item: item.rate - (item.before or 0.0), default=None)


def link(timeline: Timeline, sources: Sequence[str], start: float, end: float, before: Reference) -> Traffic | None:
    """The way that carries most in ordinary steps; None where none was counted then, or its readings lie too far apart
    to tell of this time."""
    found = [item for item in _traffic(timeline, sources, start, end, before) if item.before is not None]
    most = max(found, key=lambda item: item.before or 0.0, default=None)
    every = None if most is None else longest_period(timeline.sources, most.signal, sources)
    return None if every is None or 2 * every > end - start else most


def _traffic(timeline: Timeline, sources: Sequence[str], start: float, end: float, before: Reference) -> list[Traffic]:
    found = []
    for signal, says in WAYS:
        rate = reading.rate(timeline, signal, sources, start, end)
        if rate is not None:
            found.append(Traffic(signal, says, rate, before.rate(signal, sources)))
    return found


def limits(
    timeline: Timeline, sources: Sequence[str], start: float, end: float, before: Reference
) -> tuple[str, float | None, float | None]:
    """The harmful clock-event reason that grew most against the time before, its share of the stretch, and its share
    before. One that was there all along must not hide another that is new."""
    best: tuple[str, float | None, float | None] = ("", None, None)
    for item in reading.series(timeline, "device.limit_seconds", sources):
        reason = split_key(item.key)[1].get("reason", "")
        share = _limited(timeline, item, start, end)
        if share is None or reason in HARMLESS_REASONS:
            continue
        earlier = before.ask(("limit", item), partial(_limited, timeline, item))
        if best[1] is None or share - (earlier or 0.0) > best[1] - (best[2] or 0.0):
            best = (reason, share, earlier)
    if best[1] is not None:
        return best
    for item in reading.series(timeline, "device.limit_reasons", sources):
        share = _harmed(timeline, item, start, end)
        if share is not None:
            return "clock-event bits", share, before.ask(("limit", item), partial(_harmed, timeline, item))
    return best


def _limited(timeline: Timeline, item: SeriesId, start: float, end: float) -> float | None:
    grown = timeline.increase(item, start, end)
    return None if grown is None else min(1.0, grown / (end - start))


def _harmed(timeline: Timeline, item: SeriesId, start: float, end: float) -> float | None:
    """Share of the readings of the clock-event bits that tell of a limit; None where there was none."""
    values = timeline.steps(item, start, end).value.tolist()
    return sum(bool(int(value) & HARMFUL_BITS) for value in values) / len(values) if values else None


def slow_calls(timeline: Timeline, start: float, end: float) -> int:
    """How often our own reading of a device was slow then; a slow scrape says something of the server instead."""
    return sum(
        1
        for item in timeline.events
        if item.what == "our_slow_call"
        and str(item.data.get("collector", "")).startswith("devices.")
        and start <= item.t
        and item.t - _took(item.data.get("seconds")) <= end
    )


def _took(seconds: Any) -> float:
    """How long before its note, which comes when it has come back, a call began."""
    if isinstance(seconds, int | float) and SLOW_CALL_BEFORE < seconds < 3600.0:
        return float(seconds)
    return SLOW_CALL_BEFORE


def own_share(timeline: Timeline, sources: Sequence[str], start: float, end: float, before: Reference) -> float | None:
    """Share of the time that our own calls to these devices took, above the usual."""
    rate = reading.rate(timeline, "device.own_calls", sources, start, end)
    usual = before.rate("device.own_calls", sources)
    return None if rate is None else max(0.0, rate - (usual or 0.0))
