"""A moment as people type it: a wall-clock time, seconds from the start, or seconds before now. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

HOW: Final = "14:02:50, +90 (s from start), -30 (s ago), -5m"
"""What may be typed."""

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_LENGTH: Final = re.compile(r"([+-])(\d+(?:\.\d+)?)\s*(ms|s|m|h|min)?")
_UNITS: Final = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DAY: Final = 86_400.0


def parse(text: str, start: datetime | None, zone: tzinfo | None, now: float) -> float:
    """Seconds of the stream. Of the days that a time of day could mean, the one nearest to ``now`` that is not later,
    if the stream had begun by then.

    :raises ValueError: with one sentence that says what may be typed.
    """
    wanted = text.strip()
    found = _LENGTH.fullmatch(wanted)
    if found is not None:
        seconds = float(found[2]) * _UNITS[found[3]]
        return seconds if found[1] == "+" else now - seconds
    clock = _CLOCK.fullmatch(wanted)
    if clock is None:
        raise ValueError(f"{wanted!r} is no time: type one like {HOW}.")
    if start is None:
        raise ValueError("This stream does not say when it began, so no wall-clock time is known: type +SECONDS.")
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{wanted!r} is no time of day: type one like {HOW}.")
    local = (start + timedelta(seconds=now)).astimezone(zone)
    micro = int((clock[4] or "").ljust(6, "0"))
    meant = local.replace(hour=hour, minute=minute, second=second, microsecond=micro)
    t = (meant - start).total_seconds()
    return t if t <= now + 1.0 else t - _DAY
