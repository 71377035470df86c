"""Numbers as people read them: with a unit, three digits that matter, never more precise than the source."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo


def number(value: float) -> str:
    """At most four characters: 812, 1.2k, 34k, 0.31."""
    size = abs(value)
    for divisor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= divisor * 0.9995:
            scaled = value / divisor
            text = f"{scaled:.1f}" if abs(scaled) < 9.95 else f"{scaled:.0f}"
            return text.removesuffix(".0") + suffix
    if size >= 9.95 or value == round(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 0.995 else f"{value:.2g}"


def grouped(value: float) -> str:
    """A whole number with thin groups: 2 410."""
    return f"{value:,.0f}".replace(",", " ")


def seconds(value: float) -> str:
    """A length of time: 250 ms, 3.1 s, 4 min 10 s."""
    size = abs(value)
    if size < 0.0095:
        return f"{value * 1e3:.2g} ms"
    if size < 0.9995:
        return f"{value * 1e3:.0f} ms"
    if size < 9.95:
        return f"{value:.1f} s"
    if size < 90:
        return f"{value:.0f} s"
    if size >= 360_000:
        return "over 100 h"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def bounds(low: float, high: float) -> str:
    """A length of time that is only known to lie between two: 180–420 ms, up to 90 ms."""
    if low <= 0:
        return f"up to {seconds(high)}"
    below, above = seconds(low), seconds(high)
    if below == above:
        return above
    unit = above.rpartition(" ")[2]
    return f"{below.removesuffix(f' {unit}')}–{above}"


def age(value: float) -> str:
    """How old a reading is; tenths only while they matter."""
    return f"{max(0.0, value):.1f} s" if value < 9.95 else seconds(value)


def ratio(value: float) -> str:
    """A share in per cent; a share that is not zero never reads as 0."""
    percent = value * 100
    if 0.0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.1f} %"


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 4, 8 times a power of ten that is not below the value."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 4, 8, 10):
        if value <= step * power * 1.0001:
            return step * power
    return 10 * power


def moment(start_utc: str) -> datetime | None:
    """The stream's start; None where the header does not say it readably."""
    try:
        parsed = datetime.fromisoformat(start_utc.replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def clock(start: datetime | None, t: float, zone: tzinfo | None, digits: int = 0) -> str:
    """The wall clock at t seconds of the stream (``+12.3 s`` where its start is not known)."""
    if start is None:
        return f"{t:+.{digits}f} s"
    step = 10 ** (6 - digits)
    micro = round(t * 1e6 / step) * step if digits else math.floor(t * 1e6 + 0.5)
    try:
        local = (start + timedelta(microseconds=micro)).astimezone(zone)
    except (OverflowError, ValueError):
        return f"{t:+.{digits}f} s"
    whole = local.strftime("%H:%M:%S")
    return f"{whole}.{local.microsecond:06d}"[: 9 + digits] if digits else whole
