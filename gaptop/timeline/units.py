"""Whole microseconds: the timeline's inner clock, and what may enter it."""

from __future__ import annotations

from typing import Any, Final

MICRO: Final = 1_000_000
FARTHEST: Final = 1e9
"""Seconds from the stream's start; what lies farther is no time that a stream can have."""
LARGEST: Final = 3e38
"""What a float32 can hold; a larger magnitude is no reading."""


def micros(t: Any) -> int | None:
    """Seconds as whole microseconds; None for what is not a time (wrong type, NaN, absurdly far)."""
    kind = type(t)
    if (kind is float or kind is int) and -FARTHEST <= t <= FARTHEST:
        moment: int = round(t * MICRO)
        return moment
    return None


def nearest(t: float) -> int:
    """Seconds as whole microseconds, for questions: infinities become the farthest time, NaN the start."""
    if t != t:
        return 0
    return round(min(max(t, -FARTHEST), FARTHEST) * MICRO)
