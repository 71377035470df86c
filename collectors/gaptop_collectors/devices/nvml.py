"""NVIDIA GPUs through NVML (nvidia-ml-py): utilisation windows, power, clocks, limits, memory, who else is on them.

One session, kept open (without persistence mode each new one costs over a second). What is asked, and how often: the
utilisation rings, power, energy and the counters each 250 ms; clocks and event reasons each 500 ms; memory, temperature
and power limit each 2 s; the process list each 5 s. Never GetPcieThroughput (blocks 20 ms) nor the fan.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from types import ModuleType

from gaptop_collectors.collector import CollectorError, Message, Note
from gaptop_collectors.devices import nvml_calls
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_device import CLOSER_S, NAME, NvmlDevice
from gaptop_collectors.devices.nvml_utilization import DRAIN_S
from gaptop_collectors.target import Processes


class NvmlDevices:
    """Every GPU that NVML shows. A GPU that fails has a hole and a sentence; the others go on.

    A call that hangs blocks this collector's thread only; when it returns, the rings still hold the windows of the last
    ten seconds or more. A crash inside the library takes the process with it: that is why the probe is its own.
    """

    name = NAME
    deadline = 1.0

    def __init__(self, processes: Processes | None, looked: Callable[[], None] = lambda: None) -> None:
        """``looked`` is called once it is known who is on the GPUs, or that this cannot be known."""
        self.period = DRAIN_S
        self._looked = looked
        self._processes = processes
        self._nvml: ModuleType | None = None
        self._calls: Calls | None = None
        self._devices: list[NvmlDevice] = []
        self._closer_until = 0.0
        self._reached: dict[str, int] = {}

    def open(self) -> Sequence[Message]:
        try:
            return self._open()
        except CollectorError:
            self._looked()
            raise

    def _open(self) -> Sequence[Message]:
        nvml = nvml_calls.load()
        count = nvml_calls.start(nvml)
        self._nvml = nvml
        self._calls = calls = Calls(nvml)
        messages: list[Message] = []
        failures: list[str] = []
        for index in range(count):
            try:
                device = self._device(calls, index)
                messages += device.open()
            except CallFailed as failed:
                failures.append(f"GPU {index} does not answer ({failed.says})")
                continue
            self._devices.append(device)
        if not self._devices:
            self.close()
            raise CollectorError(
                f"{'; '.join(failures)}, so no device lane can be drawn: check nvidia-smi and dmesg, "
                "and in a container restart it (a systemctl daemon-reload on the host takes its devices away)."
            )
        notes = [Note(time.monotonic_ns(), "gpu_lost", f"{failure}; it is left out.") for failure in failures]
        return [*messages, *notes, *calls.notes()]

    def sample(self) -> Sequence[Message]:
        if self._calls is None:
            raise CollectorError("NVML's session is closed.")
        if self._devices and all(device.lost for device in self._devices):
            says = "; ".join(f"{device.uuid}: {device.lost}" for device in self._devices)
            raise CollectorError(
                f"No GPU answers any more ({says}), so their lanes have a hole: see dmesg for an Xid, and in a "
                "container restart it (a systemctl daemon-reload on the host takes its devices away)."
            )
        closer = time.monotonic() < self._closer_until
        messages: list[Message] = []
        for device in self._devices:
            messages += device.sample(closer)
        self._looked()
        self.period = min([DRAIN_S, *(device.period for device in self._devices), *([CLOSER_S] if closer else [])])
        return [*messages, *self._calls.notes()]

    def boost(self, seconds: float) -> None:
        """Power and counters at 10 Hz; the utilisation ring misses nothing anyway."""
        self._closer_until = time.monotonic() + seconds

    def have(self, pid: int) -> bool:
        """Whether this process of the server was on a GPU when that was last asked. For any thread."""
        return any(pid in device.pids for device in self._devices)

    def close(self) -> None:
        self._reached |= {device.uuid: device.last_ns for device in self._devices}
        self._devices = []
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._nvml, self._calls = None, None

    def _device(self, calls: Calls, index: int) -> NvmlDevice:
        nvml = calls.nvml
        handle = calls(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = str(calls(nvml.nvmlDeviceGetUUID, handle))
        name = str(calls(nvml.nvmlDeviceGetName, handle))
        since_ns = self._reached.get(uuid, time.monotonic_ns())
        return NvmlDevice(calls, index, handle, uuid, name, self._processes, since_ns)
