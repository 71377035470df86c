"""Where the time of a part of the stream went: of what is selected, or of what is on screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gaptop.tui.scene import Scene
from gaptop.valleys.model import LedgerRow, Valley
from gaptop.valleys.report_devices import ledger_of

_SHARE: Final = 0.02
"""Of the time at most is spent on adding up: an hour with a thousand valleys takes longer than a frame may."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """The ledger of [start, end] in seconds of the stream."""

    start: float
    end: float
    selected: bool
    rows: tuple[LedgerRow, ...]


class RangeLedger:
    """Adds up anew when the range or what is known of it changed, and not too often."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key: tuple[object, ...] = ()
        self._found = Ranged(0.0, 0.0, False, ())
        self._next = 0.0

    def of(self, scene: Scene) -> Ranged:
        """Of the selected time, else of the time on screen."""
        start, end = scene.selected or (scene.view.start, scene.view.end)
        start, end = max(0.0, start), min(end, scene.now)
        asked = (scene.selected, tuple(item.device for item in scene.assessment.watched))
        key = (asked, start, end, scene.assessment.ledger)
        now = self._clock()
        asked_anew = self._key[:1] != key[:1]  # another range, or another part of the devices
        if key != self._key and (asked_anew or now >= self._next):
            self._key = key
            valleys = [valley for valley in scene.assessment.valleys if _touches(valley, start, end)]
            rows = ledger_of(scene.timeline, scene.assessment, valleys, start, end) if end > start else ()
            self._found = Ranged(start, end, scene.selected is not None, rows)
            self._next = now + (self._clock() - now) / _SHARE
        return self._found


def _touches(valley: Valley, start: float, end: float) -> bool:
    return valley.start_s < end and (valley.end_s is None or valley.end_s > start)
