"""The truth as the sources let it be seen: which stretches a device's windows and the scrapes must show, and which not.

**Idle.** NVML tells the busy share of windows of W seconds at an unknown phase. A gap of g seconds in a device that is
busy otherwise leaves, at the worst phase, a window with an idle share of ``g/2W`` (g <= 2W; from 2W on a whole one):
split evenly over two windows, each holds half of it. Many gaps shorter than W add up in a window all the same, so the
rule is not about single gaps but about the idle share of a window that is slid over the truth. A window of the fixed
grid ends somewhere in every stretch of W seconds, whatever the phase; so where the sliding window stays above a share
for W seconds, at least one reading does. For one gap the sliding window holds a share q for ``g + W(1 - 2q)`` seconds
(g >= qW), which is W or more from ``g >= 2qW`` on.

A valley is by definition a fall under half of the recent busy level. One must be *seen* where the true busy share is
under 0.4 of the level for W (for one gap in a busy device q = 0.6: g >= 1.2W, 0.24 s of 0.2 s windows); the rest to 0.5
is for whole per cents and for the clock's error. What falls under 0.5 only, or for less than W, is seen or not as the
phase will have it. It is neither missed nor invented.

**Stalls.** Progress is told by the counters between two scrapes of period P. A stall of s seconds holds whole intervals
of ``s - 2P`` at least. Where nothing comes at all 0.4 s of them are enough; where some tokens come, what falls between
two readings is a matter of luck, and only a second (or eight of the usual steps) tells it from that. The truth does not
say which it is, so a stall must be seen from ``s >= 2P + max(1, 8 steps)`` on. Stalls and idle stretches that touch are
one standstill; where it idles for half of its time or more, the idle stretch tells it. A standstill that begins where a
silence ends need not be seen: vLLM tells of a step when that has ended, so that in the first one its gauges still say
that nobody asks.

Pure: numbers in, stretches out. Times are seconds since the stream's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from gaptop.valleys.level import Level
from gaptop.valleys.model import Cause

Floats = npt.NDArray[np.float64]

STRIDE: Final = 0.01
"""Seconds between two places of the sliding window: 17 and more of them in the shortest one."""

FALL: Final = 0.5
"""Under this share of the busy level it is a valley, by definition."""

LOW: Final = 0.75
"""Above this share of the level nothing is wrong: what is called a valley there is invented."""

SURE: Final = 0.4
"""Under this share at every phase a reading lies under FALL, whole per cents and clock error included."""

LOOK_BACK: Final = 30.0
"""The busy level is that of the last so many active seconds..."""

HIGH: Final = 0.9
"""...at this quantile; both are part of what "recent busy level" means."""

LEARN: Final = 1.0
"""Active seconds before a device has a level, and a server a usual rate: idle before work is no valley."""

ACTIVE: Final = 0.05
LEAST: Final = 1.0
STEPS: Final = 8.0

TOLD: Final = 0.5
"""A standstill in which the device idles for this share of the time is told by the idle stretch."""


class Piece(NamedTuple):
    """A part of the truth: over [start, end) the device (or every request) waited for one cause.
    ``weight``: the share of progress that was lost."""

    start: float
    end: float
    cause: Cause
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen: the windows of the device (None: no device is seen), the time between two readings of the
    progress (None: no metrics), the seconds of a usual step, and the range that the stream covers."""

    window: float | None
    readings: float | None
    step: float
    start: float
    end: float


Excuse = Literal[
    "", "too short", "too shallow", "at the edge", "before a level was known", "first step after a silence"
]
"""Why a stretch need not be seen; "" where it must be."""

EXCUSES: Final[tuple[Excuse, ...]] = get_args(Excuse)[1:]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A true valley. ``device`` None: requests got no token, whatever the device did. ``excuse``: why it need not be
    seen."""

    device: int | None
    start: float
    end: float
    pieces: tuple[Piece, ...]
    excuse: Excuse = ""

    @property
    def sure(self) -> bool:
        """It must be seen."""
        return not self.excuse

    @property
    def kind(self) -> Literal["idle", "stall"]:
        return "stall" if self.device is None else "idle"

    @property
    def seconds(self) -> dict[Cause, float]:
        return seconds_of(self.pieces, self.start, self.end)

    @property
    def cause(self) -> Cause:
        """That of most of its time."""
        found = self.seconds
        return max(found, key=lambda cause: (found[cause], cause))


def seconds_of(pieces: Iterable[Piece], start: float, end: float) -> dict[Cause, float]:
    """Seconds of each cause inside [start, end), by weight."""
    found: dict[Cause, float] = {}
    for piece in pieces:
        inside = min(piece.end, end) - max(piece.start, start)
        if inside > 0.0:
            found[piece.cause] = found.get(piece.cause, 0.0) + inside * piece.weight
    return found


def clipped(pieces: Iterable[Piece], start: float, end: float) -> tuple[Piece, ...]:
    """What of the pieces lies inside [start, end)."""
    return tuple(
        item._replace(start=max(item.start, start), end=min(item.end, end))
        for item in pieces
        if item.start < end and item.end > start
    )


def union(ranges: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of [start, end) that at least one of the ranges covers."""
    covered, reached = 0.0, start
    for first, last in sorted(ranges):
        covered += max(0.0, min(last, end) - max(first, reached))
        reached = max(reached, min(last, end))
    return covered


def less(piece: Piece, taken: Iterable[tuple[float, float]]) -> list[Piece]:
    """What the ranges leave of a piece."""
    found = []
    start = piece.start
    for first, last in sorted(taken):
        if first >= piece.end:
            break
        if first > start:
            found.append(piece._replace(start=start, end=first))
        start = max(start, last)
    if start < piece.end:
        found.append(piece._replace(start=start))
    return found


def idle_between(pieces: Sequence[Piece], starts: Floats, ends: Floats) -> Floats:
    """Idle seconds in each of the ranges. ``pieces``: sorted, disjoint."""
    if not len(pieces):
        return np.zeros(len(starts))
    bounds = np.array([bound for piece in pieces for bound in (piece.start, piece.end)])
    lengths = bounds[1::2] - bounds[::2]
    area = np.column_stack((np.zeros_like(lengths), lengths)).ravel().cumsum()
    found: Floats = np.interp(ends, bounds, area) - np.interp(starts, bounds, area)
    return found


def levels(busy: Floats, window: float) -> Floats:
    """The recent busy level at each place of the sliding window; NaN before there is one.

    A place under FALL of the level is no part of what is usual.
    """
    found = np.full(len(busy), np.nan)
    every = max(1, round(window / 4 / STRIDE))
    recent = Level(round(LOOK_BACK / STRIDE / every), HIGH)
    least = LEARN / STRIDE / every
    level = float("nan")
    for index in range(0, len(busy), every):
        value = float(busy[index])
        if value > ACTIVE and not value < FALL * level:
            recent.add(value)
            if len(recent) >= least and recent.value is not None:
                level = recent.value
        found[index : index + every] = level
    return found


@dataclass(frozen=True, slots=True)
class Sliding:
    """A device's busy share in a window that is slid over the truth, by the place of its middle; and the busy level."""

    window: float
    middles: Floats
    busy: Floats
    level: Floats

    @classmethod
    def over(cls, pieces: Sequence[Piece], sight: Sight) -> Sliding | None:
        """None where the device is not seen. ``pieces``: sorted, disjoint."""
        if sight.window is None or sight.end - sight.start <= 2 * sight.window:
            return None
        half = sight.window / 2
        middles = np.arange(sight.start + half, sight.end - half, STRIDE)
        busy = 1.0 - idle_between(pieces, middles - half, middles + half) / sight.window
        return cls(sight.window, middles, busy, levels(busy, sight.window))

    def dips(self) -> tuple[tuple[float, float], ...]:
        """Times in which it lies under LOW of the level."""
        half = self.window / 2
        found = _runs(self.busy < LOW * self.level)
        return tuple((float(self.middles[first]) - half, float(self.middles[last]) + half) for first, last in found)

    def stretches(self, pieces: Sequence[Piece], device: int) -> tuple[Stretch, ...]:
        """The true valleys of the device's duty cycle."""
        found = []
        for first, last in _runs(self.busy < FALL * self.level):
            start, end = float(self.middles[first]), float(self.middles[last])
            inside = [piece for piece in pieces if piece.start < end and piece.end > start]
            if not inside:
                continue
            # A gap at the stretch's edge belongs to it as a whole: the middle of a window is a poor bound for it.
            start = inside[0].start if start - inside[0].start <= self.window else start
            end = inside[-1].end if inside[-1].end - end <= self.window else end
            part = slice(first, last + 1)
            lasts = _longest(self.busy[part] < SURE * self.level[part]) * STRIDE
            excuse: Excuse = ""
            if lasts < self.window:
                excuse = "too short" if lasts else "too shallow"
                if last + 1 == len(self.middles):
                    excuse = "at the edge"
            found.append(Stretch(device, start, end, clipped(inside, start, end), excuse))
        return tuple(found)

    def beyond(self, pieces: Sequence[Piece], device: int) -> tuple[Stretch, ...]:
        """Gaps that are long enough, and of which no stretch is made: the device had no level yet, or too little of
        them lies in windows that are read."""
        first = float(self.middles[np.isfinite(self.level)][0]) if np.isfinite(self.level).any() else np.inf
        last = float(self.middles[-1])
        found = []
        for item in pieces:
            early, late = item.end <= first, item.start >= last
            if (early or late) and item.end - item.start >= 2 * (1 - SURE) * self.window:
                excuse: Excuse = "before a level was known" if early else "at the edge"
                found.append(Stretch(device, item.start, item.end, (item,), excuse))
        return tuple(found)


def stall_stretches(
    pieces: Sequence[Piece], idle: Sequence[Stretch], sight: Sight, warm: float, silences: Sequence[Piece] = ()
) -> tuple[Stretch, ...]:
    """The true stalls that no idle stretch tells; none where the metrics are not seen. ``warm``: the time from which on
    the usual rate is known. Neighbours that touch are one stall. Where requests go at full speed and only few are asked
    for, nothing stands still: one request left over is no valley. ``silences``: time in which nothing ran, where no
    device shows it."""
    if sight.readings is None:
        return ()
    found = []
    told = [*(item for item in pieces if item.cause != "no_demand"), *silences]
    stood = clipped(told, sight.start, sight.end)
    rested = [Piece(item.start, item.end, item.cause) for item in idle]
    for group in _touching(sorted([*stood, *rested], key=lambda item: item.start)):
        mine = [item for item in group if item in stood]
        start, end = group[0].start, max(item.end for item in group)
        covered = union(((item.start, item.end) for item in idle), start, end)
        if not mine or covered >= TOLD * (end - start):
            continue
        least = 2 * sight.readings + max(LEAST, STEPS * sight.step)
        longest = max(part[-1].end - part[0].start for part in _touching(mine))
        start, end = mine[0].start, mine[-1].end
        found.append(Stretch(None, start, end, tuple(mine), _excuse(group, mine, longest, least, warm)))
    return tuple(found)


def _excuse(group: Sequence[Piece], mine: Sequence[Piece], longest: float, least: float, warm: float) -> Excuse:
    """Why a standstill of ``mine`` need not be seen."""
    if mine[0].start < warm:
        return "before a level was known"
    if longest < least:
        return "too short"
    return "first step after a silence" if _first_step(group, mine[0]) else ""


def _first_step(group: Sequence[Piece], first: Piece) -> bool:
    """Whether a standstill began where a silence ended."""
    return any(item.cause == "no_demand" and abs(item.end - first.start) <= STRIDE for item in group)


def _touching(pieces: Sequence[Piece]) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.start - max(item.end for item in groups[-1]) <= STRIDE:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last index of each run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(first), int(after) - 1) for first, after in zip(edges[::2], edges[1::2], strict=True)]


def _longest(mask: npt.NDArray[np.bool_]) -> int:
    return max((last - first + 1 for first, last in _runs(mask)), default=0)
