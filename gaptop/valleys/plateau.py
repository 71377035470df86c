"""Plateaus: a device that is steadily under 97 % without a valley has gaps shorter than its window, over and over."""

from __future__ import annotations

import math
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
"""Steady: at least ten windows within three per cent points."""

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
        self._first = 0
        self._last = 0
        self._sum = 0.0
        self._low = math.inf
        self._high = -math.inf

    def feed(self, cell: int, value: float) -> Plateau | None:
        """Take one cell; returns a plateau that ended before it (possibly one that continues the newest found)."""
        low, high = min(self._low, value), max(self._high, value)
        if not math.isnan(value) and high - low <= SPREAD + 1e-9:
            if math.isinf(self._low):
                self._first, self._sum = cell, 0.0
            self._low, self._high = low, high
            self._sum += value
            self._last = cell
            return None
        ended = self.current()
        self._low, self._high = math.inf, -math.inf
        if not math.isnan(value):
            self.feed(cell, value)
        return self._keep(ended)

    def current(self) -> Plateau | None:
        """The plateau that goes on now, if it is one already."""
        if math.isinf(self._low):
            return None
        cells = self._last - self._first + 1
        mean = self._sum / cells
        if cells * CELL + 1e-9 < WINDOWS * self.window or not ACTIVE < mean < FULL:
            return None
        return Plateau(self._label, self._first * CELL, (self._last + 1) * CELL, mean, None)

    def all(self) -> list[Plateau]:
        """Everything found, the present one included."""
        now = self.current()
        if now is None:
            return list(self.found)
        joined = self._joined(now)
        return [*self.found, now] if joined is None else [*self.found[:-1], joined]

    def _joined(self, new: Plateau) -> Plateau | None:
        last = self.found[-1] if self.found else None
        if last is None or new.start_s - last.end_s > JOIN or abs(new.busy_ratio - last.busy_ratio) > SPREAD:
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
