"""Where each device's time went: busy, spread idle, idle by cause, unseen. ``no_demand`` has a row, and is no loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gaptop.valleys.idle_time import ByCause
from gaptop.valleys.model import LETTERS, LedgerRow, Segment, Valley

BUSY_ROW: Final = "busy"
SPREAD_ROW: Final = "spread_idle"
UNJUDGED_ROW: Final = "idle_before_work"
"""Idle before the device had ever been busy: no valley can be told from it."""

UNSEEN_ROW: Final = "unseen"
"""Time that no reading tells of. It is no part of what the shares are of."""

TELLING: Final = 1e-4
"""Seconds under which that is the rounding of times to microseconds."""


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """What was measured of one device, in seconds: it was watched for ``seen`` and ``unseen`` together."""

    device: str
    seen: float
    busy: float
    unjudged: float
    unseen: float = 0.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What one valley (or many of one cause) cost on one device; ``unknown`` of them are not in ``tokens``."""

    device: str
    cause: str
    valleys: int
    seconds: float
    tokens: float | None
    unknown: int = 0


def losses(
    valley: Valley, server: str, idle: Mapping[str, ByCause], start: float = -math.inf, end: float = math.inf
) -> tuple[Loss, ...]:
    """What one valley cost inside [start, end]: ``idle`` are its devices' idle seconds there by the causes of its
    segments; the valley itself and its tokens count with its main cause.

    Tokens are a server's: they are booked with the first device, and the others have None (0 where the valley cost
    none). Of a time that ends within the valley they are taken to be spread evenly over it.
    A progress valley of a device that was seen costs tokens alone: what the device idled meanwhile is counted
    elsewhere. Where no device was seen, ``server`` stands for it, and its standstill counts.
    """
    main = valley.verdict.cause
    segments = valley.verdict.segments or (Segment(valley.start_s, reached(valley), main),)
    whole = sum(part.end_s - part.start_s for part in segments)
    standstill = _seconds(segments, start, end)
    inside = sum(standstill.values()) / whole if whole > 0.0 else 1.0
    tokens = None if valley.tokens_lost is None else valley.tokens_lost * inside
    found = []
    for index, device in enumerate(valley.devices or (server,)):
        parts = idle.get(device, {}) if valley.devices else standstill
        mine = tokens if index == 0 or tokens == 0.0 else None
        found.append(Loss(device, main, 1, parts.get(main, 0.0), mine, int(index == 0 and tokens is None)))
        found += [Loss(device, cause, 0, part, None) for cause, part in parts.items() if cause != main]
    return tuple(found)


def reached(valley: Valley) -> float:
    """The time up to which a valley is known to last, in seconds of the stream: its end, if it has one."""
    if valley.end_s is not None:
        return valley.end_s
    return max((part.end_s for part in valley.verdict.segments), default=valley.start_s)


def _seconds(segments: Iterable[Segment], start: float, end: float) -> dict[str, float]:
    """Seconds of each cause inside [start, end]."""
    found: dict[str, float] = {}
    for part in segments:
        inside = min(part.end_s, end) - max(part.start_s, start)
        if inside > 0.0:
            found[part.cause] = found.get(part.cause, 0.0) + inside
    return found


def add_up(items: Iterable[Loss]) -> dict[tuple[str, str], Loss]:
    """Losses by device and cause. What is not known is no part of a sum, and is counted beside it."""
    total: dict[tuple[str, str], Loss] = {}
    for item in items:
        key = item.device, item.cause
        old = total.get(key)
        if old is None:
            total[key] = item
            continue
        known = [value for value in (old.tokens, item.tokens) if value is not None]
        total[key] = Loss(
            item.device,
            item.cause,
            old.valleys + item.valleys,
            old.seconds + item.seconds,
            sum(known) if known else None,
            old.unknown + item.unknown,
        )
    return total


def rows(devices: Sequence[DeviceTime], lost: Iterable[Loss]) -> tuple[LedgerRow, ...]:
    """The ledger. Idle that no valley holds is spread idle; a device's rows add up to the time that it was watched."""
    total = add_up(lost)
    made: list[LedgerRow] = []
    known = _merged(devices)
    for name, device in known.items():
        mine = {cause: loss for (whose, cause), loss in sorted(total.items()) if whose == name}
        idle = sum(loss.seconds for loss in mine.values())
        spread = max(0.0, device.seen - device.busy - device.unjudged - idle)
        made.append(_row(device, Loss(name, BUSY_ROW, 0, device.busy, None)))
        made.append(_row(device, Loss(name, SPREAD_ROW, 0, spread, None)))
        if device.unjudged > 0.0:
            made.append(_row(device, Loss(name, UNJUDGED_ROW, 0, device.unjudged, None)))
        for cause in (*LETTERS, *sorted(set(mine) - set(LETTERS))):
            if cause in mine:
                made.append(_row(device, mine[cause]))
        if device.unseen > TELLING:
            made.append(LedgerRow(name, UNSEEN_ROW, 0, device.unseen, None, None))
    for (name, cause), loss in sorted(total.items()):
        if name not in known:
            made.append(LedgerRow(name, cause, loss.valleys, loss.seconds, loss.tokens, None, loss.unknown))
    return tuple(made)


def _merged(devices: Iterable[DeviceTime]) -> dict[str, DeviceTime]:
    """By name: a device that a second source tells of, once the first one has fallen silent, is one device."""
    found: dict[str, DeviceTime] = {}
    for item in devices:
        old = found.get(item.device, DeviceTime(item.device, 0.0, 0.0, 0.0))
        found[item.device] = DeviceTime(
            item.device,
            old.seen + item.seen,
            old.busy + item.busy,
            old.unjudged + item.unjudged,
            old.unseen + item.unseen,
        )
    return found


def _row(device: DeviceTime, loss: Loss) -> LedgerRow:
    share = loss.seconds / device.seen if device.seen > 0.0 else None
    return LedgerRow(device.device, loss.cause, loss.valleys, loss.seconds, loss.tokens, share, loss.unknown)
