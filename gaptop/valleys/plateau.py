"""Plateaus: a device that is steadily under 97 % without a valley has gaps shorter than its window, over and over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.detect import ACTIVE
from gaptop.valleys.grid import CELL
from gaptop.valleys.model import CAUSE_NAMES, Plateau, Valley
from gaptop.valleys.rounding import doubt
from gaptop.valleys.scope import Scope

FULL: Final = 0.97
"""From here on a device counts as fully busy (readings are whole per cents, idle driver work takes 1-2)."""

SPREAD: Final = 0.03
WINDOWS: Final = 10
"""Steady: at least ten windows long, and the means of any ten in a row within three per cent points."""

BAND: Final = 3 * SPREAD
"""How far single windows of a plateau lie apart: gaps that beat with the windows were recorded to scatter them by 6."""

LIKE: Final = 0.5 * SPREAD
"""Heights so close are one: a level that moved on lies a whole spread away, one that strayed for a moment none."""

JOIN: Final = 1.0
"""Plateaus of one height this close are one: a single window that stuck out parted them."""

FOLLOWS: Final = 2.0
"""A plateau that begins within this many seconds of the end of a valley that became the level goes on with it."""

KEPT: Final = 50


class PlateauFinder:
    """Feed it every cell of one device in order; NaN (or inside a valley) ends a plateau."""

    def __init__(self, label: str) -> None:
        self.window = 0.2
        self.found: list[Plateau] = []
        self._label = label
        self._newest: deque[float] = deque()
        """The cells of the newest ten windows."""
        self._newest_sum = 0.0
        self._after = 0
        """One past the newest cell."""
        self._early: list[float] = []
        """The cells of the first twenty windows: the means of ten tell a ramp only over more of them."""
        self._count = 0
        self._sum = 0.0
        self._lowest, self._highest = math.inf, -math.inf
        self._mean_low, self._mean_high = math.inf, -math.inf
        self._alike = SPREAD
        """Up to what difference in height the plateau before goes on with the present one."""

    def feed(self, cell: int, value: float) -> Plateau | None:
        """Take one cell; returns a plateau that ended before it (possibly one that continues the newest found)."""
        if math.isnan(value):
            return self._end((), SPREAD)
        ended = None
        if max(self._highest, value) - min(self._lowest, value) > BAND + 1e-9:
            ended = self._end((), SPREAD)
        self._after = cell + 1
        self._add(value)
        if self._mean_high - self._mean_low <= SPREAD + 1e-9:
            return ended
        return self._end(_moved(self._newest), LIKE)

    def _add(self, value: float) -> None:
        self._count += 1
        self._sum += value
        self._lowest, self._highest = min(self._lowest, value), max(self._highest, value)
        self._newest.append(value)
        self._newest_sum += value
        full = self._cells(WINDOWS)
        if self._count <= 2 * full:
            self._early.append(value)
        while len(self._newest) > full:
            self._newest_sum -= self._newest.popleft()
        if len(self._newest) == full:
            mean = self._newest_sum / full
            self._mean_low, self._mean_high = min(self._mean_low, mean), max(self._mean_high, mean)

    def _end(self, rest: Sequence[float], alike: float) -> Plateau | None:
        """End it, and begin anew with ``rest``, its newest cells."""
        self._count -= len(rest)
        self._sum -= sum(rest)
        self._after -= len(rest)
        ended = self._keep(self.current())
        self._newest.clear()
        self._early.clear()
        self._newest_sum = self._sum = 0.0
        self._count = 0
        self._lowest, self._highest = math.inf, -math.inf
        self._mean_low, self._mean_high = math.inf, -math.inf
        self._alike = alike
        for value in rest:
            self._add(value)
        self._after += len(rest)
        return ended

    def current(self) -> Plateau | None:
        """The plateau that goes on now, if it is one already."""
        if self._count < self._cells(WINDOWS) or not self._is_flat():
            return None
        mean = self._sum / self._count
        if not ACTIVE < mean < FULL:
            return None
        return Plateau(self._label, (self._after - self._count) * CELL, self._after * CELL, mean, None)

    def _cells(self, windows: int) -> int:
        return max(2, math.ceil(windows * self.window / CELL - 1e-6))

    def _is_flat(self) -> bool:
        """Whether its two halves are alike; where it is long enough, the means of ten have told."""
        if self._count >= self._cells(2 * WINDOWS):
            return True
        half = self._count // 2
        first, second = sum(self._early[:half]) / half, sum(self._early[half : self._count]) / (self._count - half)
        return abs(first - second) <= LIKE + 1e-9

    def all(self) -> list[Plateau]:
        """Everything found, the present one included."""
        now = self.current()
        if now is None:
            return list(self.found)
        joined = self._joined(now)
        return [*self.found, now] if joined is None else [*self.found[:-1], joined]

    def _joined(self, new: Plateau) -> Plateau | None:
        last = self.found[-1] if self.found else None
        if last is None or new.start_s - last.end_s > JOIN or abs(new.busy_ratio - last.busy_ratio) > self._alike:
            return None
        first, second = last.end_s - last.start_s, new.end_s - new.start_s
        mean = (last.busy_ratio * first + new.busy_ratio * second) / (first + second)
        return Plateau(self._label, last.start_s, new.end_s, mean, None)

    def _keep(self, ended: Plateau | None) -> Plateau | None:
        if ended is None:
            return None
        joined = self._joined(ended)
        if joined is not None:
            self.found[-1] = joined
        else:
            self.found.append(ended)
            del self.found[:-KEPT]
        return self.found[-1]


def _moved(cells: Iterable[float]) -> Sequence[float]:
    """Of cells whose level moved those after that: where two levels fit them best."""
    values = list(cells)
    whole, before = sum(values), 0.0
    best, split = -math.inf, 1
    for count in range(1, len(values)):
        before += values[count - 1]
        fit = before**2 / count + (whole - before) ** 2 / (len(values) - count)
        if fit > best + 1e-12:
            best, split = fit, count
    return values[split:]


def explained(
    timeline: Timeline, item: Plateau, scope: Scope | None, levels: Iterable[Valley], rounding: str
) -> Plateau:
    """With its idle time per step, where the engine's step rate is known, and with the valley that it continues. Its
    height is the middle of what its readings, rounded as they are, stand for.

    With several engines, or API servers that each count every step, the server's step rate is not the device's.
    """
    alone = scope is not None and scope.engines == 1 and scope.api_servers == 1
    metrics = scope.metrics if scope is not None and alone else ()
    rate = reading.rate(timeline, "step.count", metrics, item.start_s, item.end_s)
    before = [
        valley.id
        for valley in levels
        if item.device in valley.devices and valley.end_s is not None and abs(valley.end_s - item.start_s) <= FOLLOWS
    ]
    height = min(1.0, item.busy_ratio + doubt(rounding).shift)
    each = (1.0 - height) / rate if rate else None
    return replace(item, busy_ratio=height, idle_per_step_s=each, continues=before[-1] if before else None)


def level_hints(levels: Sequence[Valley]) -> tuple[str, ...]:
    """For each device (or server) the newest valley that became its level: the loss goes on, but under another name."""
    newest = {(valley.kind, valley.devices): valley for valley in levels}
    return tuple(_hint(valley) for valley in newest.values())


def _hint(valley: Valley) -> str:
    cause = CAUSE_NAMES[valley.verdict.cause]
    what = f"{', '.join(valley.devices)} has" if valley.kind == "utilisation" else "progress has"
    end = valley.start_s if valley.end_s is None else valley.end_s
    return (
        f"{what} not come back from the valley at {valley.start_s:.1f} s ({cause}): after a minute the lower level"
        f" counts as the usual one, so what is lost after {end:.1f} s is told as spread idle or not at all, not"
        f" as {cause}"
    )
