"""Numbers and names of the report for people, none longer than a person can read. Pure."""

from __future__ import annotations

from typing import Final

LONGEST_NAME: Final = 80
HOUR: Final = 3600.0
"""Seconds; a window or an error that a damaged file says is larger is not printed in digits."""


def name(value: object) -> str:
    """A name from the stream, which may be of any length, on a line of its own."""
    text = str(value)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def resolution(seconds: float) -> str:
    if seconds < 10.0:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.0f} s" if seconds <= HOUR else "over an hour"


def doubtful(error: float) -> str:
    return f"{error:.2f}" if error <= HOUR else "over an hour"


def idle_seconds(value: float, error: float, devices: int) -> str:
    """Idle seconds; of several devices they are added up, which is not the time that passed."""
    if error > HOUR:
        return "idle seconds not known to an hour"
    many = f" device-seconds over {devices} devices" if devices > 1 else " s"
    return f"idle {value:.2f} ±{error:.2f}{many}"


def longest_gap(low: float, high: float) -> str:
    """Bounds of the longest gap. Where it is longer than a window it may hold what a device at rest does."""
    above = f"{high:.2f} s" if high <= HOUR else "over an hour"
    return f"longest gap {low:.2f} to {above}, idle to within 2 %"
