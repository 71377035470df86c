"""Whether valleys recur with a period, by the autocorrelation of their starts. Pure.

At the lag of a period most starts are followed by another one. How many must be, follows from how many are by chance:
if starts came at random (Poisson), and at the lags on both sides, where those of a mere tendency are followed as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gaptop.timeline.types import Floats
from gaptop.valleys.correlation import FEWEST
from gaptop.valleys.grid import CELL
from gaptop.valleys.recurrence import Period, Sample
from gaptop.valleys.trends import grouped

NEWEST: Final = 200
"""Starts looked at, newest last."""

APART: Final = 0.1
"""A start within this share of the lag is followed. Periods that lie closer than that are told as one."""

SHORTEST: Final = 6.0
"""Times the error of a start: what is shorter may be no more than how long valleys last."""

MOST: Final = 0.6
"""Share of the starts that another one must follow at a lag to call it the period."""

ROW: Final = 4
"""Starts in a row, each a lag after the one before. Three valleys that a longer period repeats make rows of three."""

CHANCE: Final = 1e-3
"""How probable it may be that any of the lags looked at shows as much by chance."""

TWO: Final = 1.5
"""A lag of more than so many usual intervals holds two of them."""

ORDERS: Final = 20
"""How often the intervals are put into another order."""

FINER: Final = 1.03
"""One lag of the grid to the next; the grid begins at one cell, so that it is the same for every stream."""

PERIODS: Final = 3
"""Periods told of one device at most."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]


def periods(samples: Sequence[Sample]) -> tuple[Period, ...]:
    """The periods of every group; of interleaved ones the shortest first."""
    made = []
    for (kind, server, devices), items in grouped(samples).items():
        newest = items[-NEWEST:]
        starts = np.array([item.start_s for item in newest])
        error = float(np.median([item.start_error_s for item in newest])) / 2
        for found in recurring(starts, error):
            causes = Counter((newest[index].cause, newest[index].detail) for index in found.members)
            (cause, detail), _ = max(causes.items(), key=lambda item: (item[1], item[0]))
            whole = len(newest)
            made.append(
                Period(
                    kind,
                    server,
                    devices,
                    found.period_s,
                    found.spread_s,
                    found.times,
                    whole,
                    found.strength,
                    cause,
                    detail,
                )
            )
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Found:
    """A period among starts: how often it came, which of them recur, and the share of those looked at that are followed
    at its lag."""

    period_s: float
    spread_s: float
    times: int
    strength: float
    members: tuple[int, ...]


def recurring(starts: Floats, error: float) -> list[Found]:
    """The periods of ascending starts (seconds), each known to ``error`` seconds; none where there is none."""
    found: list[Found] = []
    left = np.arange(len(starts))
    while len(left) >= FEWEST and len(found) < PERIODS:
        one = _shortest(starts[left], max(error, CELL))
        if one is None:
            break
        members = left[list(one.members)]
        found.append(replace(one, members=tuple(members.tolist())))
        left = np.setdiff1d(left, members)
    return sorted(found, key=lambda item: item.period_s)


def _shortest(starts: Floats, error: float) -> Found | None:
    """The shortest period: of the first stretch of lags that pass, the one at which most starts recur."""
    shortest, longest = SHORTEST * error, float(starts[-1] - starts[0]) / (FEWEST - 1) * (1 + APART)
    if longest <= shortest:
        return None
    lags = np.asarray(CELL * FINER ** np.arange(_grid(shortest), _grid(longest) + 1), np.float64)
    near = np.asarray(np.maximum(APART * lags, error), np.float64)
    tried = math.log(longest / shortest) / math.log((1 + APART) / (1 - APART)) + 1
    best: Found | None = None
    for lag, close in zip(*_candidates(starts, lags, near, error, CHANCE / tried), strict=True):
        if best is not None and lag > best.period_s * (1 + 2 * APART):
            break
        found = _refined(starts, lag, close)
        good = found is not None and found.strength >= MOST and len(found.members) >= FEWEST
        if found is not None and good and (best is None or len(found.members) > len(best.members)):
            best = found
    return best


def _grid(lag: float) -> int:
    return math.ceil(math.log(lag / CELL) / math.log(FINER))


def _candidates(
    starts: Floats, lags: Floats, near: Floats, error: float, chance: float
) -> tuple[list[float], list[float]]:
    """The lags at which more starts are followed than by chance, and how near to them."""
    followed, looked = _followed(starts, lags, near)
    usual = 1.0 - np.exp(-2 * near * (len(starts) - 1) / (starts[-1] - starts[0]))
    for beside in (lags - 3 * near, lags + 3 * near):
        there, of = _followed(starts, beside, near)
        usual = np.maximum(usual, there / np.maximum(of, 1))
    good = (followed >= MOST * looked) & (looked > 0)
    for part in (2, 3):
        # Every second start of a shorter period recurs too: that one is too short to be told, and this is none.
        there, of = _followed(starts, lags / part, np.maximum(near / part, error))
        good &= there < MOST * of
    enough = np.flatnonzero(good)
    passed = _unlikely(enough, followed, looked, usual, chance)
    if len(passed):
        mixed = _mixed(starts, lags[passed], near[passed])
        # Lags of one interval are left out: neighbours that come at equal times are a period in any order.
        above = lags[passed] > TWO * float(np.median(np.diff(starts)))
        usual[passed] = np.maximum(usual[passed], np.where(above, mixed, 0.0))
        passed = _unlikely(passed, followed, looked, usual, chance)
    return lags[passed].tolist(), near[passed].tolist()


def _unlikely(among: Indices, followed: Indices, looked: Indices, usual: Floats, chance: float) -> Indices:
    """Those at which so many followers are no chance."""
    likely = [_at_least(int(followed[index]), int(looked[index]), float(usual[index])) for index in among.tolist()]
    return among[np.asarray(likely, np.float64) <= chance]


def _mixed(starts: Floats, lags: Floats, near: Floats) -> Floats:
    """The share that is followed where the same intervals come in another order. Intervals that are merely of similar
    length leave two or three of them at a similar time in any order."""
    chance = np.random.default_rng(0)  # the same for the same starts
    gaps = np.diff(starts)
    shares = []
    for _ in range(ORDERS):
        there, of = _followed(np.concatenate(([0.0], np.cumsum(chance.permutation(gaps)))), lags, near)
        shares.append(there / np.maximum(of, 1))
    return np.asarray(np.mean(shares, axis=0), np.float64)


def _followed(starts: Floats, lags: Floats, near: Floats) -> tuple[Indices, Indices]:
    """For each lag: how many starts another one follows after it, and of how many that can be told."""
    wanted = starts[None, :] + lags[:, None]
    first = np.searchsorted(starts, wanted - near[:, None], side="left")
    after = np.searchsorted(starts, wanted + near[:, None], side="right")
    # A start does not follow itself: a lag may be nearer to nothing than that.
    first = np.maximum(first, np.arange(1, len(starts) + 1)[None, :])
    can = wanted + near[:, None] <= starts[-1] + 1e-9
    return ((after > first) & can).sum(axis=1), can.sum(axis=1)


def _at_least(count: int, of: int, share: float) -> float:
    """How probable ``count`` or more of ``of`` are, each with this share."""
    if share >= 1.0:
        return 1.0
    return sum(math.comb(of, k) * share**k * (1.0 - share) ** (of - k) for k in range(count, of + 1))


def _refined(starts: Floats, lag: float, near: float) -> Found | None:
    """The period as the starts in a row have it; those that came near to it by chance are left out again."""
    links = _links(starts, _steps(starts, lag, near))
    if not len(links):
        return None
    period = float(np.median(links))
    near = min(near, max(6 * float(np.median(np.abs(links - period))), CELL))
    steps = _steps(starts, period, near)
    links = _links(starts, steps)
    if not len(links):
        return None
    followed, looked = _followed(starts, np.array([period]), np.array([near]))
    strength = float(followed[0]) / max(1, int(looked[0]))
    members = np.flatnonzero(_members(steps))
    period = float(np.median(links))
    # Several valleys may belong to each period.
    times = min(len(members), int(float(starts[members[-1]] - starts[members[0]]) / period + 0.25) + 1)
    return Found(period, _spread(starts[members], period), times, strength, tuple(members.tolist()))


def _spread(starts: Floats, period: float) -> float:
    """The deviation of what comes a period later, also farther off than links reach; by the median, for strays."""
    links = _linked(starts, _steps(starts, period, period / 4))
    return 1.4826 * float(np.median(np.abs(links - period)))


def _steps(starts: Floats, lag: float, near: float) -> Indices:
    """For each start the one that comes nearest to a lag after it; -1 where none is near enough."""
    wanted = starts + lag
    right = np.clip(np.searchsorted(starts, wanted), 1, len(starts) - 1)
    nearest = np.where(wanted - starts[right - 1] <= starts[right] - wanted, right - 1, right)
    good = (np.abs(starts[nearest] - wanted) <= near) & (nearest > np.arange(len(starts)))
    return np.where(good, nearest, -1)


def _members(steps: Indices) -> Flags:
    """Which starts stand in a row that is long enough."""
    rows = [np.arange(len(steps))]
    for _ in range(ROW - 1):
        following = steps[rows[-1]]
        there = following >= 0
        rows = [*(part[there] for part in rows), following[there]]
    member = np.zeros(len(steps), dtype=bool)
    member[np.concatenate(rows)] = True
    return member


def _links(starts: Floats, steps: Indices) -> Floats:
    """Seconds from each start in a row to the next one."""
    return _linked(starts, np.where(_members(steps), steps, -1))


def _linked(starts: Floats, steps: Indices) -> Floats:
    first = np.flatnonzero(steps >= 0)
    return np.asarray(starts[steps[first]] - starts[first], np.float64)
