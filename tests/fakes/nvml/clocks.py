"""Virtual time: the stand-in's clocks, set from here, as the clocks that Python code reads."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Final

from tests.fakes.nvml.build import FILE_NAME

BEGIN_NS: Final = 1_000_000_000_000
BOOT_AHEAD_NS: Final = 3_600_000_000_000
EPOCH_NS: Final = 1_767_225_600_000_000_000
"""CLOCK_MONOTONIC of the opening; how long the machine slept before; the wall clock then (1 January 2026)."""
WALL, MONOTONIC, BOOT = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME


class Clocks:
    """Sets the stand-in's clocks, and makes Python's those. Other threads wait with real time as ever."""

    def __init__(self, wall_steps: Mapping[float, float]) -> None:
        """``wall_steps``: by how many seconds the wall clock is set forward (or back), and when."""
        self._set = ctypes.CDLL(FILE_NAME).gaptop_fake_set_clock
        self._set.argtypes = [ctypes.c_longlong] * 3
        self._set.restype = None
        self._read = ctypes.PyDLL(FILE_NAME).gaptop_fake_clock  # keeps the GIL: three times as fast
        self._read.restype = ctypes.c_longlong
        self._steps = sorted(wall_steps.items())
        self.reach(BEGIN_NS)
        self._patch()

    def now(self) -> int:
        return int(self._read(MONOTONIC))

    def reach(self, monotonic_ns: int) -> None:
        since = (monotonic_ns - BEGIN_NS) / 1e9
        stepped = round(sum(by for at, by in self._steps if at <= since) * 1e9)
        self._set(monotonic_ns, monotonic_ns - BEGIN_NS + EPOCH_NS + stepped, monotonic_ns + BOOT_AHEAD_NS)

    def _patch(self) -> None:
        real, read = time.clock_gettime_ns, self._read

        def clock_gettime_ns(which: int) -> int:
            return int(read(which)) if which in (WALL, MONOTONIC, BOOT) else real(which)

        def clock_gettime(which: int) -> float:
            return clock_gettime_ns(which) / 1e9

        for name, which in {"monotonic": MONOTONIC, "perf_counter": MONOTONIC, "time": WALL}.items():
            setattr(time, f"{name}_ns", lambda which=which: clock_gettime_ns(which))
            setattr(time, name, lambda which=which: clock_gettime(which))
        time.clock_gettime_ns = clock_gettime_ns
        time.clock_gettime = clock_gettime
