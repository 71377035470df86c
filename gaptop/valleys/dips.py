"""The shallow dips: told one by one while they are new, counted for good, and never a loss of their own.

Their idle time is in the ledger already, as spread idle. Only a duty cycle makes one: power alone never does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Steps
from gaptop.valleys.model import DipCount, ShallowDip
from gaptop.valleys.rounding import centred, doubt, partial
from gaptop.valleys.runs import ONE_GAP, Run
from gaptop.valleys.scope import DeviceRef
from gaptop.valleys.windows import longest_gap
from gaptop.valleys.witnesses import counters_fell

KEPT: Final = 500
WITNESSED_AFTER: Final = 2.0
"""Seconds after a dip by which a second signal must have come: GPM reads each 0.2 s, an exporter each second."""


def shallow(device: str, run: Run, rounding: str, error: float, off: float = 0.0) -> ShallowDip:
    """A run of low windows as a dip; ``error`` (seconds) bounds the mapping of the device's clock, ``off`` how far each
    window's bounds may lie away from where they are taken to be."""
    lengths, values = np.array(run.lengths), np.array(run.values)
    lowest, usual, highest = (float(item) for item in centred(np.array(run.steady), rounding))
    lost = float(((usual - centred(values, rounding)) * lengths).sum())
    known, whole = doubt(rounding), float(lengths.sum())
    rounded = known.error * float((partial(values) * lengths).sum())
    if len(values) != ONE_GAP:
        # A gap may reach into a neighbour by less than its reading shows: one on one side, several on both.
        rounded += known.full * float(lengths[0] if len(values) == 1 else lengths[0] + lengths[-1])
    # The usual level is none better known than its own scatter.
    scatter = (highest - lowest) * whole
    ends = np.cumsum(lengths) + run.start
    around = Steps(
        np.array([run.start - run.lengths[0], *(ends - lengths), run.end]),
        np.array([run.start, *ends, run.end + run.lengths[-1]]),
        np.array([run.steady[0], *values, run.steady[0]]),
    )
    edge = max(run.lengths) + error
    moved = 2 * off * max(0.0, usual - float(values.min()))
    low, high = longest_gap(around, rounding)
    longest = max(0.0, low - 2 * off), high + 2 * off
    return ShallowDip(device, run.start, run.end, edge, edge, max(0.0, lost), rounded + scatter + moved, longest)


@dataclass(slots=True)
class _Pending:
    dip: ShallowDip
    device: DeviceRef
    usual: float


class Dips:
    """Takes dips as they are found; ``kept`` are the newest, judged or not, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[ShallowDip] = deque(maxlen=KEPT)
        self._counts: dict[str, DipCount] = {}
        self._pending: list[_Pending] = []

    def add(self, dip: ShallowDip, device: DeviceRef, usual: float) -> None:
        """A dip of a device; ``usual`` is its duty cycle around it."""
        self._pending.append(_Pending(dip, device, usual))

    def settle(self, timeline: Timeline, *, ended: bool) -> None:
        """Look for a second signal where the time for it has passed."""
        waiting = []
        for item in self._pending:
            if ended or timeline.now >= item.dip.end_s + WITNESSED_AFTER - 1e-6:
                self._book(_witnessed(timeline, item))
            else:
                waiting.append(item)
        self._pending = waiting

    def all(self) -> tuple[ShallowDip, ...]:
        """The newest dips; those that may still find a second signal are suspected meanwhile."""
        found = [*self._kept, *(item.dip for item in self._pending)]
        return tuple(sorted(found, key=lambda item: (item.start_s, item.device))[-KEPT:])

    def counts(self) -> tuple[DipCount, ...]:
        """All dips so far, by device."""
        counts = dict(self._counts)
        for item in self._pending:
            counts[item.dip.device] = _counted(counts.get(item.dip.device), item.dip)
        return tuple(counts[device] for device in sorted(counts))

    def _book(self, dip: ShallowDip) -> None:
        self._kept.append(dip)
        self._counts[dip.device] = _counted(self._counts.get(dip.device), dip)


def counted(dips: tuple[ShallowDip, ...]) -> tuple[DipCount, ...]:
    """Dips by device."""
    counts: dict[str, DipCount] = {}
    for dip in dips:
        counts[dip.device] = _counted(counts.get(dip.device), dip)
    return tuple(counts[device] for device in sorted(counts))


def _counted(old: DipCount | None, dip: ShallowDip) -> DipCount:
    old = DipCount(dip.device, 0, 0, 0.0, 0.0) if old is None else old
    return DipCount(
        dip.device,
        old.dips + 1,
        old.confirmed + int(dip.confirmed),
        old.idle_s + dip.idle_s,
        old.idle_error_s + dip.idle_error_s,
    )


def _witnessed(timeline: Timeline, item: _Pending) -> ShallowDip:
    dip = item.dip
    found = counters_fell(timeline, item.device, dip.start_s, dip.end_s, dip.idle_s / max(item.usual, 1e-6))
    return replace(dip, confirmed=bool(found), agreeing=("device.busy", *found))
