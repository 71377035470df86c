"""The ledger beside the truth: under which cause each truly idle second of a device was booked.

The truth counts over the time that the device's windows cover. A true idle second is booked under the cause of the
segment over it, of a valley of that device; one under no segment is *missed* where it lies in a true stretch that must
be seen, and spread idle elsewhere (ordinary gaps between steps, and what need not be seen). A ledger is right about the
seconds that stand under their own cause, of all but the spread ones.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gaptop.lab.score.match import Truth
from gaptop.lab.score.seen import Piece, idle_between, less
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.ledger import BUSY_ROW, SPREAD_ROW, UNSEEN_ROW, reached
from gaptop.valleys.model import Assessment, Cause, Segment, Valley

DEVICE: Final = "device.busy"
MISSED: Final = "missed"

Range = tuple[float, float]
Matrix = Mapping[tuple[Cause, str], float]


@dataclass(frozen=True, slots=True)
class Booked:
    """Device-seconds of one device that were not busy: the truth's, and the ledger's over all of its rows but the busy
    one; and all that were seen. ``rows`` are the ledger's own by cause; ``matrix`` has the true seconds by true cause,
    and by the cause that they are booked under (or MISSED, or the row of spread idle)."""

    true_s: float
    ledger_s: float
    seen_s: float
    rows: Mapping[str, float] = field(default_factory=dict)
    matrix: Matrix = field(default_factory=dict)

    @property
    def off(self) -> float:
        """By which share of its time the ledger's idle seconds are off."""
        return abs(self.ledger_s - self.true_s) / self.seen_s if self.seen_s else 0.0


def booked(timeline: Timeline, assessment: Assessment, truth: Truth, devices: Mapping[str, int]) -> tuple[Booked, ...]:
    """Of each device that windows were read of and the ledger tells of."""
    found = []
    for label, device in devices.items():
        rows = [row for row in assessment.ledger if row.device == label and row.cause != UNSEEN_ROW]
        steps = [timeline.steps(item, 0.0, assessment.now) for item in timeline.ids(DEVICE) if label in item.source]
        if not rows or not steps or not len(steps[0].start):
            continue
        spans = joined(zip(steps[0].start.tolist(), steps[0].end.tolist(), strict=True))
        pieces = truth.idle.get(device, ())
        sure = joined((item.start, item.end) for item in truth.stretches if item.device == device and item.sure)
        mine = [item for item in assessment.valleys if item.kind == "utilisation" and label in item.devices]
        found.append(
            Booked(
                true_s=_idle(pieces, spans),
                ledger_s=sum(row.device_seconds for row in rows if row.cause != BUSY_ROW),
                seen_s=sum(row.device_seconds for row in rows),
                rows={row.cause: row.device_seconds for row in rows if row.cause != BUSY_ROW},
                matrix=matrix(pieces, spans, segments(mine), sure),
            )
        )
    return tuple(found)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ranges that touch, as one each."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1] + 1e-6:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def segments(valleys: Iterable[Valley]) -> list[Segment]:
    """The segments of one device's valleys in the order of time; where two overlap the first one keeps the time."""
    found: list[Segment] = []
    until = 0.0
    for valley in sorted(valleys, key=lambda item: item.start_s):
        said = valley.verdict
        for part in said.segments or (Segment(valley.start_s, reached(valley), said.cause),):
            if part.end_s > until:
                found.append(Segment(max(part.start_s, until), part.end_s, part.cause))
                until = part.end_s
    return found


def matrix(
    pieces: Sequence[Piece], spans: Sequence[Range], parts: Sequence[Segment], sure: Iterable[Range]
) -> dict[tuple[Cause, str], float]:
    """True idle seconds inside the spans, by true cause and by where they are booked."""
    taken = [(item.start_s, item.end_s) for item in parts]
    # Any cause does: only the times of what is left count.
    left = [piece for start, end in sure for piece in less(Piece(start, end, "unknown"), taken)]
    booked_as: dict[str, list[Range]] = {MISSED: [(item.start, item.end) for item in left]}
    for part in parts:
        booked_as.setdefault(part.cause, []).append((part.start_s, part.end_s))
    found: dict[tuple[Cause, str], float] = {}
    for true in sorted({item.cause for item in pieces}):
        mine = [item for item in pieces if item.cause == true]
        rest = _idle(mine, spans)
        for name, ranges in booked_as.items():
            seconds = _idle(mine, _common(ranges, spans))
            rest -= seconds
            if seconds > 0.0:
                found[true, name] = seconds
        found[true, SPREAD_ROW] = max(0.0, rest)
    return found


def _common(ranges: Iterable[Range], spans: Sequence[Range]) -> list[Range]:
    return [
        (max(first, start), min(last, end))
        for first, last in ranges
        for start, end in spans
        if min(last, end) > max(first, start)
    ]


def _idle(pieces: Sequence[Piece], ranges: Sequence[Range]) -> float:
    if not len(ranges):
        return 0.0
    both = np.array(ranges)
    return float(idle_between(pieces, both[:, 0], both[:, 1]).sum())
