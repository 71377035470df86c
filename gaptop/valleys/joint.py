"""What a thread did and whether it ran meanwhile: its stacks and its run states, joined slice by slice. Pure.

Inside a slice both are only shares, and nothing says which moments fell together. So a question has three answers: what
must have (``least``), what may have (``most``), and what chance alone would make of it (``seconds``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gaptop.timeline.types import Floats, Span, Steps

RUNNING: Final = "running"
WANTS: Final = "wants"
UNTOLD: Final = "untold"
"""The part of a window that no run state accounts for."""

MOST_SLICES: Final = 64
"""So that a long stretch costs no more than a short one."""

NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Slice:
    """Seconds by activity inside the stretch, and seconds by run state over the whole ``length`` of its windows, which
    may reach over the stretch's ends."""

    length: float
    did: Mapping[str, float]
    was: Mapping[str, float]

    def of(self, activities: Collection[str], states: Collection[str]) -> tuple[float, float]:
        """Seconds in those activities, and in those run states."""
        return _sum(self.did, activities), _sum(self.was, states)


@dataclass(frozen=True, slots=True)
class Joint:
    """A thread's time by activity and run state. What only one source saw is told apart, in seconds of the stretch:
    ``stateless`` by activity, ``stackless`` by run state (as chance would have it), ``unseen`` by neither."""

    slices: tuple[Slice, ...]
    stateless: Mapping[str, float]
    stackless: Mapping[str, float]
    unseen: float

    @property
    def seen(self) -> float:
        """Seconds that both sources saw."""
        return sum(sum(item.did.values()) for item in self.slices)

    def least(self, activities: Collection[str], states: Collection[str]) -> float:
        """Seconds in one of these activities *and* one of these run states, at least."""
        pairs = ((item.length, *item.of(activities, states)) for item in self.slices)
        return sum(max(0.0, did + was - length) for length, did, was in pairs)

    def most(self, activities: Collection[str], states: Collection[str]) -> float:
        """… at most."""
        return sum(min(item.of(activities, states)) for item in self.slices)

    def seconds(self, activities: Collection[str], states: Collection[str]) -> float:
        """… if inside each slice the two had nothing to do with one another."""
        pairs = ((item.length, *item.of(activities, states)) for item in self.slices)
        return sum(did * was / length for length, did, was in pairs)


def join(spans: Sequence[Span], states: Mapping[str, Steps], start: float, end: float, grain: float) -> Joint:
    """Join the spans of one thread with the windows of its run states (shares by name; ``running`` must be one) over
    ``[start, end]``, in slices of ``grain`` seconds at least: finer than its stacks are timed, chance decides."""
    edges, cells = _cells(states, start, end)
    lengths = edges[1] - edges[0]
    inside = np.minimum(edges[1], end) - np.maximum(edges[0], start)
    stacked = _by_activity(spans, start, end)
    did = {name: _overlap(part, edges) for name, part in stacked.items()}
    count = max(1, min(MOST_SLICES, int(lengths.sum() / grain) if grain > 0.0 else MOST_SLICES))
    place = _places(lengths, count)
    seconds = {name: _sums(place, took, count) for name, took in did.items()}
    shares = {name: _sums(place, share * lengths, count) for name, share in cells.items()}
    total = _sums(place, lengths, count)
    free = inside - _total(did.values(), len(inside))
    covered = sum(float((part[1] - part[0]).sum()) for part in stacked.values())
    stackless = {name: float((share * free).sum()) for name, share in cells.items()}
    stateless = {name: float((part[1] - part[0]).sum()) - float(did[name].sum()) for name, part in stacked.items()}
    return Joint(
        slices=tuple(
            Slice(float(total[index]), _at(seconds, index), _at(shares, index))
            for index in range(count)
            if total[index] > NOTHING
        ),
        stateless={name: took for name, took in stateless.items() if took > NOTHING},
        stackless={name: took for name, took in stackless.items() if took > NOTHING},
        unseen=max(0.0, (end - start) - covered - float(free.sum())),
    )


Intervals = tuple[Floats, Floats]


def _cells(states: Mapping[str, Steps], start: float, end: float) -> tuple[Intervals, dict[str, Floats]]:
    """The windows of the run states, cut wherever any of them changes, and each state's share in them.

    A series that is older than the first wait of its kind, or that no sample fell into, has no share: that is 0 of it.
    """
    cuts = np.unique(np.concatenate([part for item in states.values() for part in (item.start, item.end)]))
    middle = (cuts[1:] + cuts[:-1]) / 2
    running, seen = _values(states[RUNNING], middle)
    keep = seen & (cuts[1:] > start) & (cuts[:-1] < end)
    cells = {name: _values(item, middle)[0][keep] for name, item in states.items() if name != RUNNING}
    told = {RUNNING: running[keep], **cells}
    rest = 1.0 - _total(told.values(), int(keep.sum()))
    told[UNTOLD] = np.maximum(rest, 0.0)
    return (cuts[:-1][keep], cuts[1:][keep]), told


def _values(steps: Steps, moments: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The values that hold at some moments, and whether any does."""
    if not len(steps.start):
        return np.zeros(len(moments)), np.zeros(len(moments), np.bool_)
    index = np.maximum(np.searchsorted(steps.start, moments, "left") - 1, 0)
    seen = (steps.start[index] <= moments) & (moments <= steps.end[index])
    return np.where(seen, steps.value[index], 0.0), seen


def _by_activity(spans: Sequence[Span], start: float, end: float) -> dict[str, Intervals]:
    """Spans by activity, clipped to the stretch, in order."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if last > first:
            starts, ends = found.setdefault(span.activity, ([], []))
            starts.append(first)
            ends.append(last)
    return {name: (np.array(starts), np.array(ends)) for name, (starts, ends) in sorted(found.items())}


def _overlap(part: Intervals, edges: Intervals) -> Floats:
    """Seconds of disjoint intervals inside each of some cells."""
    points = np.stack(part, axis=1).ravel()
    sums = np.zeros(len(points))
    sums[1::2] = np.cumsum(part[1] - part[0])
    sums[2::2] = sums[1:-1:2]
    taken: Floats = np.interp(edges[1], points, sums) - np.interp(edges[0], points, sums)
    return taken


def _places(lengths: Floats, count: int) -> npt.NDArray[np.intp]:
    """Which of ``count`` slices of like length each cell belongs to."""
    middle = np.cumsum(lengths) - lengths / 2
    whole = float(lengths.sum())
    place: npt.NDArray[np.intp] = np.minimum((middle / whole * count).astype(np.intp), count - 1)
    return place


def _sums(place: npt.NDArray[np.intp], values: Floats, count: int) -> Floats:
    return np.bincount(place, values, count).astype(np.float64)


def _total(parts: Iterable[Floats], size: int) -> Floats:
    return sum(parts, start=np.zeros(size))


def _sum(seconds: Mapping[str, float], names: Collection[str]) -> float:
    return sum(took for name, took in seconds.items() if name in names)


def _at(columns: Mapping[str, Floats], index: int) -> dict[str, float]:
    return {name: float(column[index]) for name, column in columns.items() if column[index] > NOTHING}
