"""GPM, the GPU's own activity counters (Hopper and newer, GeForce from the 50 series): means between two samples.

A sample is a snapshot of counters; NVML turns two of them into ratios of the time between. NVIDIA calls samples under
100 ms apart invalid, so none is taken sooner than CLOSEST_S after the one before. A reading describes the true distance
of its pair, whatever that was; but one that came late (LATE times the usual distance) would be the mean over a time
whose course nobody saw, so it is dropped, and that time counts as missing.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any, Final, NamedTuple

from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_gpm_request import REFUSED, SIGNALS, GpmRequest

INTERVAL_S: Final = 0.2
CLOSEST_S: Final = 0.12
LATE: Final = 1.5
EARLY_NS: Final = 30_000_000
"""So much before its time a sample is taken, for the next turn would be too late."""
UNSURE_NS: Final = 50_000_000
"""A sample was taken at some moment of its call: after a longer one it is of no use."""
AGAIN_S: Final = 2.0
"""Distance of attempts while the driver refuses for a reason that may pass (another profiler has the counters)."""
RESTATED: Final = 0.1
"""The window is stated anew when the last pairs differ from it by more than this share."""
NOT_HERE: Final = "this GPU offers no GPM (Hopper and newer and GeForce from the 50 series do, virtual GPUs mostly not)"


class Reading(NamedTuple):
    """From start to end (CLOCK_MONOTONIC ns) the signals had these mean ratios; none, for the reason ``missing``."""

    start_ns: int
    end_ns: int
    values: dict[str, float]
    missing: str = ""


class Gpm:
    """Samples one GPU, or one MIG slice.

    ``why``: there is no GPM here, for this reason; "" while there is. ``trouble``: it fails for now. ``window_s``: the
    distance of pairs as it is, INTERVAL_S unless slowed down.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.why = "GPM was not asked"
        self.trouble = ""
        self.window_s = INTERVAL_S
        self._request: GpmRequest | None = None
        self._device: Any = None
        self._take: Callable[..., Any] = lambda *arguments: None
        self._of: tuple[Any, ...] = ()
        self._samples: list[Any] = []  # the older one first
        self._due_ns = 0
        self._retry = Timer(AGAIN_S)
        self._anchor_ns: int | None = None
        self._ended_ns = 0
        self._reached_ns = 0
        self._distances: deque[float] = deque(maxlen=3)

    @property
    def works(self) -> bool:
        return not self.why

    @property
    def unsupported(self) -> dict[str, str]:
        """Signals that cannot be had, and why."""
        if self.why:
            return dict.fromkeys(SIGNALS, self.why)
        return self._request.unsupported if self._request else {}

    @property
    def dropped(self) -> int:
        """How many values were outside 0..100 %."""
        return self._request.dropped if self._request else 0

    def start(self, since_ns: int, device: Any, take: Callable[..., Any], *of: Any) -> None:
        """See whether the GPU ``device`` has GPM. ``take(*of, sample)`` reads a sample. Raises CallFailed (lost).

        ``since_ns``: from here on missing time is told.
        """
        self.close()
        self.why, self.trouble = "", ""
        self._device, self._take, self._of, self._reached_ns = device, take, of, since_ns
        try:
            self._begin()
        except CallFailed as failed:
            self._failed(failed)

    def read(self, now_ns: int) -> Reading | None:
        """What became of the time since the last sample, when a new one is due. Raises CallFailed (lost)."""
        if self.why or not self._due(now_ns):
            return None
        begun = time.monotonic_ns()
        if begun - self._ended_ns < CLOSEST_S * 1e9:
            return None
        # On a grid, so that being late once does not move or thin out what follows.
        step = int(INTERVAL_S * 1e9) * self._calls.stretch
        self._due_ns = (self._due_ns if now_ns - self._due_ns < step else now_ns) + step
        try:
            if not self._samples:
                self._begin()
            self._calls(self._take, *self._of, self._samples[1])
            self._ended_ns = time.monotonic_ns()
            self.trouble = ""
            if self._ended_ns - begun > UNSURE_NS:
                self._anchor_ns = None
                return self._missing(self._ended_ns, "taking a GPM sample took too long to know its moment")
            return self._pair((begun + self._ended_ns) // 2)
        except CallFailed as failed:
            self._failed(failed)
            return self._missing(time.monotonic_ns(), self.trouble or self.why)

    def close(self) -> None:
        """Free the samples: before nvmlShutdown."""
        for sample in self._samples:
            with contextlib.suppress(self._calls.nvml.NVMLError):
                self._calls.nvml.nvmlGpmSampleFree(sample)
        self._samples, self._anchor_ns = [], None
        self.why = self.why or "GPM is closed"

    def _due(self, now_ns: int) -> bool:
        return self._retry.due(now_ns / 1e9) if self.trouble else now_ns >= self._due_ns - EARLY_NS

    def _begin(self) -> None:
        nvml = self._calls.nvml
        if not self._calls(nvml.nvmlGpmQueryDeviceSupport, self._device).isSupportedDevice:
            raise CallFailed(Trouble.UNSUPPORTED, NOT_HERE, nvml.NVML_ERROR_NOT_SUPPORTED)
        self._request = GpmRequest(self._calls)
        while len(self._samples) < 2:
            self._samples.append(self._calls(nvml.nvmlGpmSampleAlloc))

    def _pair(self, taken_ns: int) -> Reading:
        assert self._request is not None
        before, self._anchor_ns = self._anchor_ns, taken_ns
        older, newer = self._samples
        self._samples.reverse()
        if before is None:
            return self._missing(taken_ns, "the first of two GPM samples")
        values, repeated = self._request.between(older, newer)
        if repeated:
            # Its counters are of an earlier moment, so the older sample stays the one to measure from.
            self._samples.reverse()
            self._anchor_ns = before
            return self._missing(taken_ns, "GPM gave its last sample again")
        distance = (taken_ns - before) / 1e9
        late = distance > LATE * self.window_s
        self._restate(distance)
        if late:
            return self._missing(taken_ns, "gaptop's own GPM sample came late")
        if not values:
            refused = self._request.unsupported
            if len(refused) == len(SIGNALS):
                self.why = next(iter(refused.values()))
                self.close()
            return self._missing(taken_ns, self.why or "GPM gave no number")
        self._reached_ns = taken_ns
        return Reading(before, taken_ns, values)

    def _restate(self, distance: float) -> None:
        self._distances.append(distance)
        usual = median(self._distances)
        if len(self._distances) == self._distances.maxlen and abs(usual - self.window_s) > RESTATED * self.window_s:
            self.window_s = max(INTERVAL_S, round(usual, 2))

    def _missing(self, until_ns: int, reason: str) -> Reading:
        start, self._reached_ns = self._reached_ns, until_ns
        return Reading(start, until_ns, {}, reason)

    def _failed(self, failed: CallFailed) -> None:
        """Only a GPU that is lost is more than GPM's own affair: another profiler may have taken the counters."""
        nvml = self._calls.nvml
        if failed.code in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            raise failed
        self._anchor_ns = None
        # A MIG slice that was taken away, or has nothing to compute with yet, is an invalid argument.
        if failed.trouble is not Trouble.UNSUPPORTED or failed.code == nvml.NVML_ERROR_INVALID_ARGUMENT:
            self.trouble = f"GPM fails ({failed.says})"
            self._retry.asked(time.monotonic())
            return
        reasons = {nvml.NVML_ERROR_NO_PERMISSION: REFUSED, nvml.NVML_ERROR_NOT_SUPPORTED: NOT_HERE}
        self.why = reasons.get(failed.code) or self._calls.why(failed)
        self.close()
