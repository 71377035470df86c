"""The slowly asked gauges of one GPU: clocks and event reasons, temperature, memory, power limit, other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from gaptop_collectors.devices.nvml_calls import SLOW_S, CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_processes import Occupants, occupants
from gaptop_collectors.target import Processes

CLOCKS_S: Final = 0.5
SLOWLY_S: Final = 2.0
PROCESSES_S: Final = 5.0
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
"""Seconds between two readings of each."""


class Gauges:
    """``unsupported``: signal and reason, learnt by asking once. ``occupants``: whose processes were last seen."""

    def __init__(self, calls: Calls, processes: Processes | None) -> None:
        self._calls = calls
        self._nvml = calls.nvml
        self._processes = processes
        self._listing_took = 0.0
        self.unsupported: dict[str, str] = {}
        self.occupants = Occupants(None, None)
        if processes is None:
            self.unsupported["device.foreign_processes"] = "no server's processes are known"
        self._groups: list[tuple[Timer, Callable[[Any, dict[str, float]], None]]] = [
            (Timer(CLOCKS_S), self._read_clocks),
            (Timer(SLOWLY_S), self._read_slowly),
            (Timer(PROCESSES_S), self._read_processes),
        ]

    def read(self, handle: Any, now: float, into: dict[str, float]) -> None:
        """What is due, by signal name in base units. Raises CallFailed when the device is lost."""
        for timer, read in self._groups:
            if timer.due(now):
                began = time.monotonic()
                read(handle, into)
                timer.done(now, time.monotonic() - began)

    def _get(
        self, into: dict[str, float], signal: str, factor: float, function: Callable[..., Any], *rest: Any
    ) -> None:
        """One reading of one signal. NOT_SUPPORTED: never asked again. Raises CallFailed when the device is lost."""
        if signal in self.unsupported:
            return
        try:
            into[signal] = self._calls(function, *rest) * factor
        except CallFailed as failed:
            self._note(signal, failed)

    def _note(self, signal: str, failed: CallFailed) -> None:
        if failed.trouble is Trouble.LOST:
            raise failed
        if failed.trouble is Trouble.UNSUPPORTED:
            self.unsupported[signal] = self._calls.why(failed)

    def _read_clocks(self, handle: Any, into: dict[str, float]) -> None:
        nvml = self._nvml
        self._get(into, "device.clock_sm", 1e6, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
        self._get(into, "device.clock_memory", 1e6, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM)
        self._get(into, "device.limit_reasons", 1, self._event_reasons, handle)

    def _event_reasons(self, handle: Any) -> int:
        """Drivers before 535 know the same bits by an older name."""
        try:
            return int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except self._nvml.NVMLError_FunctionNotFound:
            return int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def _read_slowly(self, handle: Any, into: dict[str, float]) -> None:
        nvml = self._nvml
        self._get(into, "device.temperature", 1, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        self._get(into, "device.power_limit", 1e-3, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        if "device.memory_total" in self.unsupported:
            return
        try:
            memory = self._calls(self._memory, handle)
            total, used = int(memory.total), int(memory.used)
        except CallFailed as failed:
            self._note("device.memory_total", failed)
            self._note("device.memory_used", failed)
            return
        if total == 0:
            # GB10 and Jetson share the host's memory and answer 0, which is no size.
            reason = "this GPU shares the host's memory and reports none of its own"
            self.unsupported |= {"device.memory_total": reason, "device.memory_used": reason}
            return
        into["device.memory_total"], into["device.memory_used"] = total, used

    def _memory(self, handle: Any) -> Any:
        """Version 2 leaves what the driver reserves out of ``used``; old drivers only have version 1."""
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError_FunctionNotFound:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _read_processes(self, handle: Any, into: dict[str, float]) -> None:
        """Compute processes only: asking for the graphics ones takes milliseconds."""
        if self._processes is None or "device.foreign_processes" in self.unsupported:
            return
        try:
            listed = self._calls(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        except CallFailed as failed:
            self._note("device.foreign_processes", failed)
            return
        took, before = self._calls.last_seconds, self._listing_took
        self._listing_took = took
        if min(took, before) > SLOW_S:  # twice running: once may be this host being busy
            reason = f"listing the processes took {took * 1000:.0f} ms and would hold up the driver, so it is not done"
            self.unsupported["device.foreign_processes"] = reason
        ours = {process.pid for process in self._processes.current()}
        self.occupants = occupants({int(one.pid) for one in listed}, ours)
        if self.occupants.foreign is not None:
            into["device.foreign_processes"] = self.occupants.foreign
