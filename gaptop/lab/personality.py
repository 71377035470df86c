"""What a driver would show of the simulated device: NVML's boxcar utilisation in whole percent, and a power model.

A reading covers the window of 200 ms that ends at its time and appears 5-10 ms later, as a fit of public recordings of
an A100 and an RTX 3090 against known kernel times shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import Final, Literal, NamedTuple

from gaptop.lab.core.events import DeviceSpan, DeviceWork

UUID = "GPU-51a71ab0-0000-4000-8000-000000000000"
NAME = "Simulated GPU (lab)"
WINDOW_NS = 200_000_000
LAG_NS = 7_000_000

IDLE_WATTS = 32.0
DECODE_WATTS = 265.0
PREFILL_WATTS = 395.0
"""Orders of magnitude of a 450 W consumer card with a live context, bound by memory, and bound by arithmetic."""
COLLECTIVE_WATTS = 98.0
"""A kernel that spins for its peers: hung NCCL was seen 100 % busy at 152 W of 700 (NVIDIA/nccl#1550): a fifth of the
limit."""
TRANSFER_WATTS = 120.0
"""A collective that sends as much as the link takes: its copies keep few SMs and little of the memory busy."""
FOREIGN_WATTS = 310.0
WEDGE_WATTS = 110.0
"""A kernel that never ends: all it does is wait on its own memory."""
PHANTOM_WATTS = 38.0
"""Called busy by the driver while nothing runs."""
SETTLING = 0.15
"""Time constant of the power reading (seconds)."""

BUSY_HERTZ = 2.52e9
IDLE_HERTZ = 0.21e9
CLOCK_HOLD_NS = 2_000_000_000
"""A consumer card keeps its clock this long after the last work."""

GPU_IDLE = 0x1
"""NVML's clocks-event reason for "nothing runs"."""
LIMIT_BITS: Final = {"power": 0x4, "thermal": 0x20}
"""NVML's bits of sw_power_cap and sw_thermal_slowdown (nvml.h)."""


class Draw(NamedTuple):
    """What a kind of work does to the counters while it runs: watts, and shares of time or of cycles.

    ``memory``: device memory is read or written (the driver's own share of time); the rest are GPM's.
    """

    watts: float
    memory: float
    sm: float
    tensor: float
    dram: float


_DECODE: Final = Draw(DECODE_WATTS, 0.72, 0.86, 0.12, 0.74)
_PREFILL: Final = Draw(PREFILL_WATTS, 0.41, 0.95, 0.63, 0.33)
_LOOP: Final = Draw(DECODE_WATTS, 0.02, 0.9, 0.0, 0.02)
"""A kernel that loops for ever over its registers: a real one was seen 100 % busy at 267 W, without a token."""
_OTHERS: Final[dict[DeviceWork, Draw]] = {
    "collective": Draw(COLLECTIVE_WATTS, 0.01, 0.15, 0.0, 0.01),
    "transfer": Draw(TRANSFER_WATTS, 0.2, 0.2, 0.0, 0.05),
    "foreign": Draw(FOREIGN_WATTS, 0.35, 0.8, 0.3, 0.4),
    "phantom": Draw(PHANTOM_WATTS, 0.0, 0.0, 0.0, 0.0),
    "wedge": Draw(WEDGE_WATTS, 0.02, 0.3, 0.0, 0.02),
}


def draw_of(span: DeviceSpan | Busy) -> Draw:
    """Of one span. Power falls with the square of the clock: voltage follows it."""
    if span.kind == "step":
        found = _between(_DECODE, _PREFILL, span.compute)
    elif span.kind == "wedge":
        found = _between(_OTHERS["wedge"], _LOOP, span.compute)
    else:
        found = _OTHERS[span.kind]
    if span.clock == 1.0:
        return found
    return found._replace(watts=IDLE_WATTS + (found.watts - IDLE_WATTS) * span.clock**2)


def _between(low: Draw, high: Draw, share: float) -> Draw:
    return Draw(*(one + (other - one) * share for one, other in zip(low, high, strict=True)))


class Busy(NamedTuple):
    """The device worked over [start_ns, end_ns); the rest as in ``DeviceSpan``."""

    start_ns: int
    end_ns: int
    compute: float
    kind: DeviceWork = "step"
    clock: float = 1.0


class Held(NamedTuple):
    """The driver limits the clocks over [start_ns, end_ns)."""

    start_ns: int
    end_ns: int
    reason: Literal["power", "thermal"]


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
        self._clock = 1.0

    def read(self, end_ns: int, spans: Iterable[Busy], limits: Iterable[Held] = ()) -> Reading:
        """The window that ends at ``end_ns``; ``spans`` and ``limits`` may reach beyond it on either side."""
        start_ns = end_ns - WINDOW_NS
        worked = 0
        energy = 0.0
        for span in spans:
            part = min(span.end_ns, end_ns) - max(span.start_ns, start_ns)
            if part > 0:
                worked += part
                energy += part * draw_of(span).watts
                self._clock = span.clock
        mean = (energy + (WINDOW_NS - worked) * IDLE_WATTS) / WINDOW_NS
        self._power += (mean - self._power) * (1 - exp(-WINDOW_NS / 1e9 / SETTLING))
        if worked:
            self._worked_ns = end_ns
        warm = end_ns - self._worked_ns < CLOCK_HOLD_NS
        reasons = 0 if worked else GPU_IDLE
        for limit in limits:
            if limit.start_ns < end_ns <= limit.end_ns:
                reasons |= LIMIT_BITS[limit.reason]
        return Reading(
            busy=round(worked / WINDOW_NS, 2),
            power_w=round(self._power, 1),
            clock_hz=BUSY_HERTZ * self._clock if warm else IDLE_HERTZ,
            limit_reasons=reasons,
        )
