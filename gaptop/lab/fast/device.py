"""One simulated GPU as its driver would show it: windows of a duty cycle, power, energy, clocks, limits, GPM.

Pure and incremental: spans come in the order of their starts, readings in the order of their times, and what lies
before both is forgotten.
"""

from __future__ import annotations

from collections import deque
from math import exp
from typing import Final, Literal, NamedTuple

from gaptop.lab.core.events import DeviceSpan, Limit
from gaptop.lab.personality import (
    BUSY_HERTZ,
    CLOCK_HOLD_NS,
    GPU_IDLE,
    IDLE_HERTZ,
    IDLE_WATTS,
    LIMIT_BITS,
    SETTLING,
    draw_of,
)

_HOLD: Final = CLOCK_HOLD_NS / 1e9
_ROOM: Final = 36.0
"""Degrees Celsius of the idle card; each watt adds so much of a degree in the end."""
_PER_WATT: Final = 0.09
_WARMING: Final = 20.0
_HOT: Final = 88.0
_REASON: Final = {"power": "sw_power_cap", "thermal": "sw_thermal_slowdown"}
"""The lab's limits, as NVML's counters name them."""
LIMITS: Final = ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "board_limit", "reliability")


class Piece(NamedTuple):
    """The device ran over [start, end), told once where two works overlap."""

    start: float
    end: float
    watts: float
    memory: float
    sm: float
    tensor: float
    dram: float
    clock: float


class Window(NamedTuple):
    """Shares of a stretch of time."""

    end: float
    busy: float
    memory: float
    sm: float
    tensor: float
    dram: float


class SimulatedDevice:
    """Times are the simulation's seconds. ``began``: nothing before it is asked for."""

    def __init__(self, window_s: float, phase: float, began: float) -> None:
        self._window_s = window_s
        self._window_from = began + phase - window_s
        self._pieces: deque[Piece] = deque()
        self._limits: list[Limit] = []
        self._covered = self._read_until = self._gpm_from = began
        self._worked_until = began - _HOLD
        self._clock = 1.0
        self._power = IDLE_WATTS
        self._energies: deque[tuple[float, float]] = deque([(began, 0.0)], maxlen=16)
        self.energy = 0.0
        self.temperature = _ROOM
        self.limited = dict.fromkeys(LIMITS, 0.0)
        self.foreign_until = float("-inf")

    def add(self, span: DeviceSpan) -> None:
        """It will run; spans of a device come in the order of their starts."""
        if span.kind == "foreign":
            self.foreign_until = max(self.foreign_until, span.end)
        start = max(span.start, self._covered)
        if span.end <= start:
            return
        self._covered = span.end
        self._pieces.append(Piece(start, span.end, *draw_of(span), span.clock))

    def limit(self, limit: Limit) -> None:
        self._limits.append(limit)

    def windows(self, until: float) -> list[Window]:
        """The windows that have ended by then, since the last call."""
        found = []
        while (end := self._window_from + self._window_s) <= until:
            found.append(self._share(self._window_from, end))
            self._window_from = end
        self._forget()
        return found

    def gpm(self, until: float) -> Window:
        """The stretch since the last call."""
        found = self._share(self._gpm_from, until)
        self._gpm_from = until
        return found

    def skip_gpm(self, until: float) -> None:
        """Nobody asks for it."""
        self._gpm_from = until

    def read(self, now: float) -> None:
        """Bring power, energy, temperature, limits and clock up to ``now``."""
        at = self._read_until
        for piece in self._pieces:
            if piece.start >= now:
                break
            if piece.end <= at:
                continue
            if piece.start > at:
                self._settle(piece.start - at, IDLE_WATTS)
                at = piece.start
            end = min(piece.end, now)
            self._settle(end - at, piece.watts)
            at = self._worked_until = end
            self._clock = piece.clock
        self._settle(now - at, IDLE_WATTS)
        counted = dict.fromkeys(_REASON, self._read_until)
        for limit in self._limits:  # in the order of their starts: what two of them limit counts once
            part = min(limit.end, now) - max(limit.start, counted[limit.reason])
            if part > 0:
                self.limited[_REASON[limit.reason]] += part
                counted[limit.reason] = min(limit.end, now)
        self._limits = [limit for limit in self._limits if limit.end > now]
        self._energies.append((now, self.energy))
        self._read_until = now

    @property
    def power(self) -> float:
        """Watts at the last read."""
        return self._power

    @property
    def power_average(self) -> float:
        """The mean of about a second up to the last read."""
        now, energy = self._energies[-1]
        then, before = next(item for item in self._energies if item[0] >= now - 1.05)
        return (energy - before) / (now - then) if now > then else self._power

    @property
    def clock_hertz(self) -> float:
        """The SM clock: a consumer card keeps it for a while after the last work."""
        warm = self._read_until - self._worked_until < _HOLD
        return BUSY_HERTZ * self._clock if warm else IDLE_HERTZ

    @property
    def reasons(self) -> int:
        """NVML's clocks-event reasons that are active at the last read."""
        now = self._read_until
        bits = 0 if self._worked_until >= now else GPU_IDLE
        for limit in self._limits:
            if limit.start <= now:
                bits |= LIMIT_BITS[limit.reason]
        return bits

    def _settle(self, seconds: float, watts: float) -> None:
        if seconds <= 0:
            return
        self._power = watts + (self._power - watts) * exp(-seconds / SETTLING)
        self.energy += watts * seconds
        hot = _HOT if any(limit.reason == "thermal" for limit in self._limits) else _ROOM + _PER_WATT * watts
        self.temperature += (hot - self.temperature) * min(1.0, seconds / _WARMING)

    def _share(self, start: float, end: float) -> Window:
        busy = memory = sm = tensor = dram = 0.0
        for piece in self._pieces:
            if piece.start >= end:
                break
            part = min(piece.end, end) - max(piece.start, start)
            if part > 0:
                busy += part
                memory += part * piece.memory
                sm += part * piece.sm
                tensor += part * piece.tensor
                dram += part * piece.dram
        length = end - start
        return Window(end, busy / length, memory / length, sm / length, tensor / length, dram / length)

    def _forget(self) -> None:
        oldest = min(self._window_from, self._read_until, self._gpm_from)
        while self._pieces and self._pieces[0].end <= oldest:
            self._pieces.popleft()


def whole(share: float, rounding: Literal["nearest", "down"]) -> float:
    """As whole per cents."""
    # 1e-9 is under any share that a window can have: a full one must not come out as 99 %.
    return int(100.0 * share + (0.5 if rounding == "nearest" else 1e-9)) / 100
