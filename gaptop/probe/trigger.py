"""When to look closer: the device is busy far under its recent level, or tokens stand still while requests run.

A cheap guess from single readings, so that the moments around a valley's edge are sampled densely also when nobody
watches; what a valley is, is decided elsewhere. Pure: all times are seconds of the stream.
"""

from __future__ import annotations

from math import exp
from typing import Final

from gaptop.recording.lines import Batch
from gaptop_collectors.signals import split_key

BOOST: Final = 3.0
"""Seconds that one boost lasts."""
_RATION: Final = 6.0
_FADE: Final = 60.0
_WAS_BUSY: Final = 0.2
_FAR_UNDER: Final = 0.6
_STILL: Final = 0.4
_PROGRESS: Final = ("tokens.decode", "step.count")
_LOOKED_AT: Final = frozenset(("device.busy", "sched.running", *_PROGRESS))


class _Busy:
    """The recent busy level of one device: its highest reading, fading towards what is read now."""

    def __init__(self) -> None:
        self._level = 0.0
        self._at: float | None = None
        self._low = False

    def falls(self, t: float, value: float) -> bool:
        """Whether this reading is the first of a low stretch."""
        if self._at is not None and t > self._at:
            self._level = value + (self._level - value) * exp(-(t - self._at) / _FADE)
        self._at = t
        self._level = max(self._level, value)
        was_low, self._low = self._low, self._level >= _WAS_BUSY and value < _FAR_UNDER * self._level
        return self._low and not was_low


class _Progress:
    """One source's requests and its progress counters."""

    def __init__(self) -> None:
        self._running: dict[str, float] = {}
        self._counters: dict[str, float] = {}
        self._moved: float | None = None
        self._still = False

    def stops(self, t: float, readings: dict[str, float]) -> bool:
        """Whether with these readings the counters have stood still for long enough, for the first time."""
        moved = False
        for key, value in readings.items():
            name, _ = split_key(key)
            if name == "sched.running":
                self._running[key] = value
            elif name in _PROGRESS:
                moved = moved or value != self._counters.get(key)
                self._counters[key] = value
        if moved or sum(self._running.values()) <= 0:
            self._moved = t
        was_still = self._still
        self._still = bool(self._counters) and self._moved is not None and t - self._moved >= _STILL
        return self._still and not was_still


class Trigger:
    """Sees every batch; :meth:`due` then says whether to boost now. Boosts are rationed."""

    def __init__(self) -> None:
        self._devices: dict[str, _Busy] = {}
        self._servers: dict[str, _Progress] = {}
        self._wanted = False
        self._last = -_RATION

    def see(self, batch: Batch) -> None:
        """Look at a batch's readings in their order."""
        keys = [key for key in batch.values if key.partition("{")[0] in _LOOKED_AT]
        for index, t in enumerate(batch.t if keys else ()):
            readings = {key: value for key in keys if (value := batch.values[key][index]) is not None}
            busy = readings.pop("device.busy", None)
            if busy is not None and self._devices.setdefault(batch.src, _Busy()).falls(t, busy):
                self._wanted = True
            if readings and self._servers.setdefault(batch.src, _Progress()).stops(t, readings):
                self._wanted = True

    def due(self, now: float) -> bool:
        """Whether to boost now; a wish within the ration's time is kept for later only as long as a boost lasts."""
        if not self._wanted or now - self._last < _RATION:
            self._wanted = self._wanted and now - self._last >= _RATION - BOOST
            return False
        self._wanted = False
        self._last = now
        return True
