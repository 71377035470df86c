"""The slowly asked gauges of one GPU: clocks and event reasons, temperature, memory, power limit, other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from gaptop_collectors.devices.nvml_calls import STRIKES, CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_cost import SLOW_S
from gaptop_collectors.devices.nvml_processes import Occupants, occupants
from gaptop_collectors.target import Processes

CLOCKS_S: Final = 0.5
SLOWLY_S: Final = 2.0
PROCESSES_S: Final = 5.0
SELDOM_S: Final = 30.0
DEAR_S: Final = 0.002
"""A list of processes that takes longer (4.5 ms were seen, under the driver's lock) is asked for each SELDOM_S."""
PERIODS: Final = {
    "device.clock_sm": CLOCKS_S,
    "device.clock_memory": CLOCKS_S,
    "device.limit_reasons": CLOCKS_S,
    "device.power_limit": SLOWLY_S,
    "device.temperature": SLOWLY_S,
    "device.memory_used": SLOWLY_S,
    "device.memory_total": SLOWLY_S,
    "device.foreign_processes": PROCESSES_S,
}
"""Seconds between two readings of each, usually."""
_SHARED: Final = "this GPU shares the host's memory and reports none of its own"


class Gauges:
    """``unsupported``: signal and reason, learnt by asking once. ``occupants``: whose processes were last seen.

    ``answers`` tells whether the device still does: a call that fails for ever on a device that is well is given up.
    ``shares_memory``: it has none of its own.
    """

    def __init__(
        self,
        calls: Calls,
        processes: Processes | None,
        answers: Callable[[Any], bool] = lambda handle: False,
        *,
        shares_memory: bool = False,
    ) -> None:
        self._calls = calls
        self._nvml = calls.nvml
        self._older = (
            calls.nvml.NVMLError_FunctionNotFound,
            calls.nvml.NVMLError_ArgumentVersionMismatch,
            calls.nvml.NVMLLibraryMismatchError,
        )
        self._processes = processes
        self._answers = answers
        self._shares_memory = shares_memory
        self._listing_took = 0.0
        self._strikes: Counter[str] = Counter()
        self.unsupported: dict[str, str] = {}
        self.occupants = Occupants(None, None)
        if processes is None:
            self.unsupported["device.foreign_processes"] = "no server's processes are known"
        self._listing = Timer(PROCESSES_S)
        self._groups: list[tuple[Timer, Callable[[Any, dict[str, float]], None]]] = [
            (Timer(CLOCKS_S), self._read_clocks),
            (Timer(SLOWLY_S), self._read_slowly),
            (self._listing, self._read_processes),
        ]

    @property
    def stretch(self) -> int:
        """How many times less often than usual everything is asked."""
        return self._calls.stretch

    @property
    def periods(self) -> Mapping[str, float]:
        """Seconds between two readings of each, as they are now."""
        stretched = {signal: seconds * self._calls.stretch for signal, seconds in PERIODS.items()}
        return stretched | {"device.foreign_processes": self._listing.seconds * self._calls.stretch}

    def read(self, handle: Any, now: float, into: dict[str, float]) -> None:
        """What is due, by signal name in base units. Raises CallFailed when the device is lost."""
        for timer, read in self._groups:
            if timer.due(now):
                read(handle, into)
                timer.asked(now, self._calls.stretch)

    def _get(
        self, handle: Any, into: dict[str, float], signal: str, factor: float, function: Callable[..., Any], *rest: Any
    ) -> None:
        """One reading of one signal. NOT_SUPPORTED: never asked again. Raises CallFailed when the device is lost."""
        if signal in self.unsupported:
            return
        try:
            into[signal] = self._calls(function, handle, *rest) * factor
            self._strikes.pop(signal, None)
        except CallFailed as failed:
            self._note(handle, signal, failed)

    def _note(self, handle: Any, signal: str, failed: CallFailed) -> None:
        if failed.trouble is Trouble.LOST:
            if not self._answers(handle):
                raise failed
            self._strikes[signal] += 1
        if failed.trouble is Trouble.UNSUPPORTED or self._strikes[signal] >= STRIKES:
            self.unsupported[signal] = self._calls.why(failed)

    def _read_clocks(self, handle: Any, into: dict[str, float]) -> None:
        nvml = self._nvml
        self._get(handle, into, "device.clock_sm", 1e6, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM)
        self._get(handle, into, "device.clock_memory", 1e6, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM)
        self._get(handle, into, "device.limit_reasons", 1, self._event_reasons)

    def _event_reasons(self, handle: Any) -> int:
        """Drivers before 535 know the same bits by an older name."""
        try:
            return int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except self._older:
            return int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def _read_slowly(self, handle: Any, into: dict[str, float]) -> None:
        nvml = self._nvml
        self._get(handle, into, "device.temperature", 1, nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU)
        self._get(handle, into, "device.power_limit", 1e-3, nvml.nvmlDeviceGetEnforcedPowerLimit)
        if "device.memory_total" in self.unsupported:
            return
        try:
            memory = self._calls(self._memory, handle)
            total, used = int(memory.total), int(memory.used)
            self._strikes.pop("device.memory_total", None)
        except CallFailed as failed:
            self._note(handle, "device.memory_total", failed)
            if "device.memory_total" in self.unsupported:
                reason = _SHARED if self._shares_memory else self.unsupported["device.memory_total"]
                self.unsupported |= dict.fromkeys(("device.memory_total", "device.memory_used"), reason)
            return
        if total == 0:  # GB10 and Jetson: no size, and "used" means nothing without one
            self.unsupported |= dict.fromkeys(("device.memory_total", "device.memory_used"), _SHARED)
            return
        into["device.memory_total"], into["device.memory_used"] = total, used

    def _memory(self, handle: Any) -> Any:
        """Version 2 leaves what the driver reserves out of ``used``; old drivers only have version 1."""
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, self._nvml.nvmlMemory_v2)
        except self._older:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _read_processes(self, handle: Any, into: dict[str, float]) -> None:
        """Compute processes only: asking for the graphics ones takes milliseconds."""
        if self._processes is None or "device.foreign_processes" in self.unsupported:
            return
        try:
            listed = self._calls(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            self._strikes.pop("device.foreign_processes", None)
        except CallFailed as failed:
            self._note(handle, "device.foreign_processes", failed)
            return
        took, before = self._calls.last_seconds, self._listing_took
        self._listing_took = took
        slow = min(took, before)  # twice running: once may be this host being busy
        if slow > SLOW_S:
            reason = f"listing the processes took {took * 1000:.0f} ms and would hold up the driver, so it is not done"
            self.unsupported["device.foreign_processes"] = reason
        self._listing.seconds = SELDOM_S if slow > DEAR_S else PROCESSES_S
        ours = {process.pid for process in self._processes.current()}
        self.occupants = occupants({int(one.pid) for one in listed}, ours, away=self._calls.machine.away)
        if self.occupants.foreign is not None:
            into["device.foreign_processes"] = self.occupants.foreign
