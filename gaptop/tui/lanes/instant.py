"""What is told beside the value of one instant: how old its reading was, or which window it describes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gaptop.timeline.types import SeriesId
from gaptop.tui.scene import Scene
from gaptop_collectors.signals import SIGNALS, split_key

_OLD_PERIODS: Final = 2.0
_MICROSECOND: Final = 1e-6
_TENTHS: Final = 0.1
"""Windows from this length on are told to a tenth of a second."""


def patience(scene: Scene, one: SeriesId) -> float:
    """Seconds after which a reading is old."""
    source = scene.sources.get(one.source)
    if source is None:
        return _OLD_PERIODS
    info, name = source.info, split_key(one.key)[0]
    window = info.window_by_signal.get(name, info.window) or 0.0
    return _OLD_PERIODS * max(info.period_by_signal.get(name, info.period), window) + info.lag


def oldest_at(scene: Scene, ids: Iterable[SeriesId], t: float) -> float | None:
    """How long the oldest of the states was known at t, where that is long. What describes a window has no age."""
    ages = ((one, _age(scene, one, t)) for one in ids if _kind(one) == "gauge")
    return max((age for one, age in ages if age > patience(scene, one)), default=None)


def window_at(scene: Scene, one: SeriesId, t: float) -> str | None:
    """The seconds (of the minute) between which the value at t was measured; None of a state."""
    if _kind(one) == "gauge":
        return None
    steps = scene.timeline.steps(one, t - _MICROSECOND, t)
    if not len(steps.start):
        return None
    start, end = float(steps.start[-1]), float(steps.end[-1])
    digits = 1 if end - start >= _TENTHS else 3
    low, high = (scene.clock(edge, digits).rpartition(":")[2].strip("+ s") for edge in (start, end))
    return f"{low}–{high} s"


def _age(scene: Scene, one: SeriesId, t: float) -> float:
    starts = scene.timeline.steps(one, t - _MICROSECOND, t).start
    return t - float(starts[-1]) if len(starts) else 0.0


def _kind(one: SeriesId) -> str:
    signal = SIGNALS.get(split_key(one.key)[0])
    return "gauge" if signal is None else signal.kind
