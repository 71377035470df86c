"""What a driver would show of the simulated device: NVML's boxcar utilisation in whole percent, and a power model.

A reading covers the window of 200 ms that ends at its time and appears 5-10 ms later, as a fit of public recordings of
an A100 and an RTX 3090 against known kernel times shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import NamedTuple

UUID = "GPU-51a71ab0-0000-4000-8000-000000000000"
NAME = "Simulated GPU (lab)"
WINDOW_NS = 200_000_000
LAG_NS = 7_000_000

IDLE_WATTS = 32.0
DECODE_WATTS = 265.0
PREFILL_WATTS = 395.0
"""Orders of magnitude of a 450 W consumer card with a live context, bound by memory, and bound by arithmetic."""
SETTLING = 0.15
"""Time constant of the power reading (seconds)."""

BUSY_HERTZ = 2.52e9
IDLE_HERTZ = 0.21e9
CLOCK_HOLD_NS = 2_000_000_000
"""A consumer card keeps its clock this long after the last work."""

GPU_IDLE = 0x1
"""NVML's clocks-event reason for "nothing runs"."""


class Busy(NamedTuple):
    """The device worked over [start_ns, end_ns); ``compute`` of it was bound by arithmetic."""

    start_ns: int
    end_ns: int
    compute: float


class Reading(NamedTuple):
    """One window: see ``devices/feed.py`` for the line that carries it."""

    busy: float
    power_w: float
    clock_hz: float
    limit_reasons: int


class Personality:
    """Readings of consecutive windows."""

    def __init__(self) -> None:
        self._power = IDLE_WATTS
        self._worked_ns = 0

    def read(self, end_ns: int, spans: Iterable[Busy]) -> Reading:
        """The window that ends at ``end_ns``; ``spans`` may reach beyond it on either side."""
        start_ns = end_ns - WINDOW_NS
        worked = 0
        energy = 0.0
        for span in spans:
            part = min(span.end_ns, end_ns) - max(span.start_ns, start_ns)
            if part > 0:
                worked += part
                energy += part * (DECODE_WATTS + (PREFILL_WATTS - DECODE_WATTS) * span.compute)
        mean = (energy + (WINDOW_NS - worked) * IDLE_WATTS) / WINDOW_NS
        self._power += (mean - self._power) * (1 - exp(-WINDOW_NS / 1e9 / SETTLING))
        if worked:
            self._worked_ns = end_ns
        warm = end_ns - self._worked_ns < CLOCK_HOLD_NS
        return Reading(
            busy=round(worked / WINDOW_NS, 2),
            power_w=round(self._power, 1),
            clock_hz=BUSY_HERTZ if warm else IDLE_HERTZ,
            limit_reasons=0 if worked else GPU_IDLE,
        )
