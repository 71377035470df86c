"""Remembers the recent stretches of ordinary work, as the time that a valley is compared with."""

from __future__ import annotations

from collections import deque
from typing import Final

REFERENCE_SECONDS: Final = 10.0
"""Ordinary time looked at before a valley."""

OLDEST: Final = 600.0
"""Ordinary time longer ago than this says little about now."""

KEPT: Final = 64
JOIN: Final = 1e-3


class Ordinary:
    """Stretches of time in which the signal was at work outside of valleys, newest last."""

    def __init__(self) -> None:
        self._stretches: deque[list[float]] = deque(maxlen=KEPT)

    def add(self, start: float, end: float) -> None:
        if self._stretches and start - self._stretches[-1][1] <= JOIN:
            self._stretches[-1][1] = end
        else:
            self._stretches.append([start, end])

    def before(self, t: float) -> tuple[tuple[float, float], ...]:
        """Up to ten seconds of ordinary time before ``t``, newest first."""
        found: list[tuple[float, float]] = []
        wanted = REFERENCE_SECONDS
        for start, end in reversed(self._stretches):
            end = min(end, t)
            if end <= start or wanted <= 0.0:
                continue
            if t - end > OLDEST:
                break
            found.append((max(start, end - wanted), end))
            wanted -= end - found[-1][0]
        return tuple(found)
