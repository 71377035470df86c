"""Keeps the samples of final valleys, and what follows from all of them. Pure, and bounded however long it runs."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from gaptop.valleys.period import periods
from gaptop.valleys.recurrence import Period, Sample, Trend
from gaptop.valleys.trends import trends

KEPT: Final = 1000
"""Samples kept; older ones count no longer."""

AGAIN: Final = 5.0
"""Seconds of stream time between two looks at all of them."""


class Recurring:
    """Take samples; ``look`` at them now and then: trends, periods and the samples are as of the last look."""

    def __init__(self) -> None:
        self.trends: tuple[Trend, ...] = ()
        self.periods: tuple[Period, ...] = ()
        self.samples: tuple[Sample, ...] = ()
        self._kept: deque[Sample] = deque(maxlen=KEPT)
        self._news = False
        self._looked = -math.inf

    def add(self, sample: Sample) -> None:
        self._kept.append(sample)
        self._news = True

    def look(self, now: float, *, ended: bool) -> None:
        """Where there are new ones, and not too often while the stream goes on."""
        if self._news and (ended or now - self._looked >= AGAIN - 1e-6):
            self._news, self._looked = False, now
            self.samples = tuple(self._kept)
            self.trends, self.periods = trends(self.samples), periods(self.samples)
