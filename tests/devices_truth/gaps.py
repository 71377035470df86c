"""Gaps of a device that is otherwise fully busy: making them, and what was told of each. Times are the stream's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gaptop.valleys.model import ShallowDip, Valley
from tests.devices_truth import boxcar
from tests.devices_truth.replay import Judged

BEFORE: Final = 20.0
"""Seconds that the card has worked when gaptop opens it: its ring is full, and tells W at once."""
Gap = tuple[float, float]
APART: Final = 0.4
"""Seconds between two gaps at least: nearer than two windows of 200 ms they may show as one."""
SCATTER: Final = 0.001
"""Seconds: the parts of a gap of whole per cents would round to its true length."""
SHOWS: Final = 97
"""A reading under this many per cents shows that there was a gap at all."""
LIMITS: Final = (74, 75, 76, 77, 78, 79, 269, 270, 271)
PCIE: Final = (197, 198)
POLLERS: Final = 50


class Told(NamedTuple):
    """All that was said of one gap: its valleys, its shallow dips."""

    valleys: list[Valley]
    dips: list[ShallowDip]

    @property
    def kind(self) -> str:
        return "valley" if self.valleys else "dip" if self.dips else "nothing"

    @property
    def idle_s(self) -> float:
        return sum(valley.idle_s or 0.0 for valley in self.valleys) + sum(dip.idle_s for dip in self.dips)

    @property
    def longest_gap_s(self) -> list[tuple[float, float]]:
        bounds = [valley.longest_gap_s for valley in self.valleys]
        return [one for one in bounds if one is not None] + [dip.longest_gap_s for dip in self.dips]


def one_each(every: float, length: float, first: float, last: float, chance: random.Random) -> list[Gap]:
    """Gaps of about one length, one in each ``every`` seconds, at random phase, APART at least."""
    found = []
    for index in range(int((last - first) / every)):
        long = length + chance.uniform(-SCATTER, SCATTER)
        begin = first + index * every + chance.uniform(APART / 2, every - long - APART / 2)
        found.append((begin, begin + long))
    return found


def card(gaps: Sequence[Gap], seconds: float, window: float, **more: Any) -> dict[str, Any]:
    """A stand-in device that works all the time but for the gaps. Its windows begin BEFORE the stream does."""
    moved = [(start + BEFORE, end + BEFORE) for start, end in gaps]
    work = {"intervals": boxcar.around(moved, seconds + BEFORE + 10), "window_ms": window * 1000}
    # Counters explain a valley and find none; without them its evidence takes half the time.
    return {**work, "unsupported": [f"field:{number}" for number in (*LIMITS, *PCIE)], **more}


def shown(gap: Gap, window: float, rounding: boxcar.Rounding = "nearest") -> list[int]:
    """The readings of the windows that the gap touches."""
    first = int((gap[0] + BEFORE) / window)
    count = int((gap[1] + BEFORE) / window) - first + 1
    moved = [(gap[0] + BEFORE, gap[1] + BEFORE)]
    busy = boxcar.around(moved, gap[1] + BEFORE + 10)
    return [boxcar.whole(duty, rounding) for duty in boxcar.duties(busy, window, count, first * window)]


def partial_windows(gap: Gap, window: float) -> int:
    """Windows that the gap covers in part."""
    bounds = [(edge + BEFORE) / window for edge in gap]
    inside = [bound for bound in bounds if abs(bound - round(bound)) > 1e-6]
    return len({int(bound) for bound in inside})


def told(judged: Judged, gap: Gap, window: float) -> Told:
    """What overlaps the gap or a window that it touches."""
    low, high = gap[0] - window, gap[1] + window
    valleys = [one for one in judged.assessment.valleys if one.start_s < high and (one.end_s or 1e9) > low]
    return Told(valleys, [one for one in judged.assessment.dips if one.start_s < high and one.end_s > low])


def seen_by_pollers(gaps: Sequence[Gap], window: float, chance: random.Random) -> float:
    """The share of gaps that a poller of GetUtilizationRates at 1 Hz notices, over pollers of all phases.

    It notices one where any reading of a window that the gap touches is under SHOWS, up to 10 ms late.
    """
    seconds = gaps[-1][1] + 5.0
    busy = card(gaps, seconds, window)["intervals"]
    values = boxcar.readings(busy, window, int((seconds + BEFORE) / window), "nearest")
    seen = 0
    for index in range(POLLERS):
        times = [index / POLLERS + second + chance.uniform(0.0, 0.01) for second in range(int(seconds) - 1)]
        read = boxcar.polled(values, window, [t + BEFORE for t in times])
        low = [t for t, value in zip(times, read, strict=True) if value is not None and value < SHOWS]
        seen += sum(any(gap[0] < t < gap[1] + 2 * window + 0.01 for t in low) for gap in gaps)
    return seen / POLLERS / len(gaps)
