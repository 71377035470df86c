"""The report's valleys beside the true ones: which were found, what each one really was, and which do not exist.

A true stretch is *found* where valleys cover at least half of it; what is *said* of it is the cause that most of its
time has in their segments. What a valley really was is the cause with most of the true time inside it: idle time of its
devices, or, where no device of it was idle, the stalls. Only that one is right. Where no cause has clearly the most
(others have two thirds of its seconds or more), the others are *acceptable*, which is counted apart; the segments are
judged second by second in any case. A valley is *invented* where the truth has nothing of importance inside it (no
window of its devices lies a quarter under their level, and no stall lasts as long as a slow step), or nothing at all in
most of it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gaptop.lab.score.seen import Piece, Stretch, clipped, less, seconds_of, union
from gaptop.valleys.ledger import reached
from gaptop.valleys.model import Cause, Segment, Valley

FOUND: Final = 0.5
"""Share of a true stretch that valleys must cover."""

NEARLY: Final = 2 / 3
"""A cause with this share of the main cause's seconds is as good a name for the whole."""

IMPORTANT: Final = 0.05
"""Seconds of stall inside a valley under which the truth has none: an ordinary step is as long."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything true of one run, as pieces (sorted, disjoint for each device), and the stretches made of them.

    ``dips`` are times in which a device's busy share, taken over a window, lay a quarter under its level. ``hidden``:
    what no source must show: idle time that the driver called busy, progress that was merely slow. A standstill that is
    told there is about it, but slowness alone makes none.
    """

    idle: Mapping[int, Sequence[Piece]]
    stalls: Sequence[Piece]
    stretches: Sequence[Stretch]
    dips: Mapping[int, Sequence[tuple[float, float]]]
    hidden: Sequence[Piece] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One valley of the report. ``truth`` is its true main cause, None for an invented one; ``accepted`` are all that
    could be called so. ``right_s`` of ``true_s`` true seconds inside it carry the right cause in its segments."""

    valley: str
    kind: str
    start: float
    end: float
    said: Cause
    detail: str
    confidence: str
    truth: Cause | None
    accepted: tuple[Cause, ...] = ()
    seconds: Mapping[Cause, float] = field(default_factory=dict)
    right_s: float = 0.0
    true_s: float = 0.0

    @property
    def right(self) -> bool:
        return self.said == self.truth

    @property
    def acceptable(self) -> bool:
        return self.said in self.accepted


@dataclass(frozen=True, slots=True)
class Matched:
    """All valleys of a case, and those true stretches that must be seen, each with what was said of it: None for one
    that was not found."""

    judged: tuple[Judged, ...]
    sure: tuple[tuple[Stretch, Cause | None], ...]


def match(valleys: Sequence[Valley], truth: Truth, devices: Mapping[str, int]) -> Matched:
    """``devices``: the simulation's number of each device by the label that the report gives it."""
    return Matched(
        judged=tuple(_judged(valley, truth, devices) for valley in valleys),
        sure=tuple((item, _told(item, valleys, devices)) for item in truth.stretches if item.sure),
    )


def _mine(valley: Valley, devices: Mapping[str, int]) -> set[int]:
    return {devices[label] for label in valley.devices if label in devices}


def _told(stretch: Stretch, valleys: Iterable[Valley], devices: Mapping[str, int]) -> Cause | None:
    """What most of a stretch is called. A stall may be told by any valley; a device's idle time by one of that device,
    or by a standstill of the server where that device tells nothing of its own."""
    valleys = list(valleys)
    own = [item for item in valleys if _is_own(item, stretch, devices)]
    others = [item for item in valleys if item not in own and (stretch.device is None or item.kind == "progress")]
    for mine in (own, [*own, *others]):
        covered = ((item.start_s, reached(item)) for item in mine)
        if union(covered, stretch.start, stretch.end) >= FOUND * (stretch.end - stretch.start):
            return _longest(mine, stretch)
    return None


def _is_own(valley: Valley, stretch: Stretch, devices: Mapping[str, int]) -> bool:
    if stretch.device is None:
        return valley.kind == "progress"
    return valley.kind == "utilisation" and stretch.device in _mine(valley, devices)


def _longest(valleys: Iterable[Valley], stretch: Stretch) -> Cause:
    """The cause that most of the stretch has in the valleys' segments."""
    seconds: dict[Cause, float] = {}
    for valley in valleys:
        start, end = max(valley.start_s, stretch.start), min(reached(valley), stretch.end)
        for part in valley.verdict.segments or (Segment(start, end, valley.verdict.cause),):
            inside = min(part.end_s, end) - max(part.start_s, start)
            if inside > 0.0:
                seconds[part.cause] = seconds.get(part.cause, 0.0) + inside
    return max(seconds, key=lambda cause: (seconds[cause], cause), default="unknown")


def _judged(valley: Valley, truth: Truth, devices: Mapping[str, int]) -> Judged:
    start, end = valley.start_s, reached(valley)
    mine = _mine(valley, devices)
    pieces = _pieces(valley, truth, mine)
    seconds = seconds_of(pieces, start, end)
    said = valley.verdict
    base = Judged(valley.id, valley.kind, start, end, said.cause, said.detail, said.confidence, None)
    if not seconds or not _important(valley, truth, mine):
        return base
    most = max(seconds, key=lambda cause: (seconds[cause], cause))
    near = {cause for cause in seconds if seconds[cause] >= NEARLY * seconds[most]}
    accepted = tuple(sorted(near))
    right, whole = _right_seconds(pieces, said.segments, start, end)
    return Judged(
        valley=base.valley,
        kind=base.kind,
        start=start,
        end=end,
        said=said.cause,
        detail=said.detail,
        confidence=said.confidence,
        truth=most,
        accepted=accepted,
        seconds=seconds,
        right_s=right,
        true_s=whole,
    )


def _pieces(valley: Valley, truth: Truth, mine: set[int]) -> Sequence[Piece]:
    """The truth inside a valley. A dip is about its devices' idle time, where they have any. A standstill is about the
    stalls, and about idle time in which nothing ran: where nothing runs, nothing stalls."""
    start, end = valley.start_s, reached(valley)
    all_idle = (piece for device in sorted(mine or truth.idle) for piece in truth.idle.get(device, ()))
    idle = clipped(all_idle, start, end)
    stalls = clipped((*truth.stalls, *truth.hidden), start, end)
    if valley.kind == "utilisation":
        return idle or stalls
    device = min(mine or truth.idle, default=0)
    rests = [item for item in clipped(truth.idle.get(device, ()), start, end) if item.end - item.start >= IMPORTANT]
    taken = [(item.start, item.end) for item in stalls]
    return [*stalls, *(part for item in rests for part in less(item, taken))]


def _important(valley: Valley, truth: Truth, mine: set[int]) -> bool:
    """Whether the truth has more than its ordinary step gaps there, the valley's own doubt at its edges included, and
    something that is low, stands or is slow in most of it, that doubt apart."""
    start, end = valley.start_s - valley.start_error_s, reached(valley) + valley.end_error_s
    low = [span for device in mine or truth.dips for span in truth.dips.get(device, ())]
    stood = [*truth.stalls, *(item for item in truth.hidden if item.weight == 1.0)]
    if not mine:
        # Nobody sees a device: its silence is a standstill.
        stood += [item for pieces in truth.idle.values() for item in pieces if item.end - item.start >= IMPORTANT]
    if union(low, start, end) <= 0.0 and sum(seconds_of(stood, start, end).values()) < IMPORTANT:
        return False
    start, end = valley.start_s + valley.start_error_s, reached(valley) - valley.end_error_s
    below = [*low, *((item.start, item.end) for item in (*stood, *truth.hidden))]
    return end <= start or union(below, start, end) >= FOUND * (end - start)


def _right_seconds(
    pieces: Sequence[Piece], segments: Sequence[Segment], start: float, end: float
) -> tuple[float, float]:
    """True seconds whose cause is that of the segment over them, and all true seconds inside [start, end)."""
    whole = sum(seconds_of(pieces, start, end).values())
    right = 0.0
    for part in segments:
        mine = [item for item in pieces if part.cause == item.cause]
        right += sum(seconds_of(mine, max(part.start_s, start), min(part.end_s, end)).values())
    return right, whole
