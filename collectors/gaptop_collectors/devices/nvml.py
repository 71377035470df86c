"""NVIDIA GPUs through NVML (nvidia-ml-py): utilisation windows, power, clocks, limits, memory, who else is on them.

One session, kept open (without persistence mode each new one costs over a second). What is asked, and how often: the
utilisation rings, power, energy and the counters each 250 ms; GPM, where a GPU has it, each 200 ms (and then the others
with it); clocks and event reasons each 500 ms; memory, temperature and power limit each 2 s; the process list and the
MIG slices each 5 s; Xid errors as they come. Never GetPcieThroughput (blocks 20 ms) nor the fan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import CollectorError, Message, Note
from gaptop_collectors.devices import nvml_start
from gaptop_collectors.devices.nvml_calls import NAME, CallFailed, Calls
from gaptop_collectors.devices.nvml_device import CLOSER_S, NvmlDevice
from gaptop_collectors.devices.nvml_events import Watched, XidWatch
from gaptop_collectors.devices.nvml_machine import look
from gaptop_collectors.devices.nvml_memo import Memo
from gaptop_collectors.devices.nvml_periods import Periods
from gaptop_collectors.devices.nvml_same import SAYS, SameReadings
from gaptop_collectors.devices.nvml_utilization import DRAIN_S
from gaptop_collectors.target import Processes

FURTHER_GPU: Final = 0.5
FURTHER_SLICE: Final = 0.25
CLOSELY: Final = 3.0
"""What these may cost in CPU, where one GPU may cost 1: about twice what each was measured to take. A close look at a
GPU without a ring is seven times as many rounds, each of which has less to do, for five seconds of a minute."""


class NvmlDevices:
    """Every GPU that NVML shows. A GPU that fails has a hole and a sentence; the others go on.

    A call that hangs blocks this collector's thread only; when it returns, the rings still hold the windows of the last
    ten seconds or more. A crash inside the library takes the process with it: that is why the probe is its own.
    """

    name = NAME
    deadline = 1.0

    def __init__(
        self, processes: Processes | None, looked: Callable[[], None] = lambda: None, state: Path | None = None
    ) -> None:
        """``looked`` is called once it is known who is on the GPUs, or that this cannot be known. ``state``: the folder
        where what was measured of each GPU is kept for the next run; None: nowhere."""
        self.period = DRAIN_S
        self._looked = looked
        self._processes = processes
        self._calls: Calls | None = None
        self._xids: XidWatch | None = None
        self._devices: list[NvmlDevice] = []
        self._same = SameReadings()
        self._closer_until = 0.0
        self._reached: dict[str, int] = {}
        self._periods = Periods(state)
        self._driver = ""

    def open(self) -> Sequence[Message]:
        try:
            return self._open()
        except CollectorError:
            self._looked()
            raise

    def _open(self) -> Sequence[Message]:
        nvml = nvml_start.load()
        count = nvml_start.start(nvml)
        self._calls = calls = Calls(nvml, look())
        self._driver = nvml_start.driver(calls)
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
        self._xids = XidWatch(nvml)
        self._watch()
        self._set_period(closer=False)
        notes = [Note(time.monotonic_ns(), "gpu_lost", f"{failure}; it is left out.") for failure in failures]
        calls.cost.start()
        return [*messages, *notes, *calls.notes()]

    def sample(self) -> Sequence[Message]:
        if self._calls is None or all(device.lost for device in self._devices):
            return self._again()
        self._calls.begin()
        closer = time.monotonic() < self._closer_until
        messages: list[Message] = []
        back = False
        # The slowest last: what its calls take, the others do not wait for.
        for device in sorted(self._devices, key=lambda device: device.took):
            lost = device.lost
            messages += device.sample(closer)
            back |= bool(lost) and not device.lost
        if back:
            self._watch()
        if self._xids:
            messages += self._xids.notes()
            for device in self._devices:
                device.without_xids = device.uuid in self._xids.unsupported
        messages += self._compare()
        self._looked()
        self._set_period(closer)
        return [*messages, *self._calls.notes()]

    @property
    def share(self) -> float:
        """What reading all of it may cost in CPU now, in budgets of a collector that reads one GPU."""
        gpus, slices = len(self._devices), sum(device.slices for device in self._devices)
        usual = 1 + FURTHER_GPU * max(0, gpus - 1) + FURTHER_SLICE * slices
        return usual * CLOSELY if any(device.closely for device in self._devices) else usual

    def boost(self, seconds: float) -> None:
        """Power and counters at 10 Hz; the utilisation ring misses nothing anyway."""
        self._closer_until = time.monotonic() + seconds

    def have(self, pid: int) -> bool:
        """Whether this process of the server was on a GPU when that was last asked. For any thread."""
        return any(pid in device.pids for device in self._devices)

    def close(self) -> None:
        for device in self._devices:
            self._reached |= device.reached
            device.close()
        self._devices = []
        calls, self._calls = self._calls, None
        xids, self._xids = self._xids, None
        # A thread that hangs inside the driver would call it again after the session's end, and crash the process.
        if (xids is None or xids.close()) and calls is not None:
            nvml_start.stop(calls.nvml)

    def _again(self) -> Sequence[Message]:
        """No GPU answers, or the session is gone: a new one is tried, for the driver may have been loaded anew."""
        lost = "; ".join(f"{device.uuid}: {device.lost}" for device in self._devices)
        self.close()
        try:
            messages = self._open()
        except CollectorError as error:
            if not lost:
                raise
            raise CollectorError(
                f"No GPU answers any more ({lost}), so their lanes have a hole: see dmesg for an Xid, and in a "
                "container restart it (a systemctl daemon-reload on the host takes its devices away).",
                state=error.state,
            ) from None
        now = time.monotonic_ns()
        backs = [Note(now, "gpu_back", f"{one.label} answers again.", one.source) for one in self._devices]
        return [*messages, *backs]

    def _device(self, calls: Calls, index: int) -> NvmlDevice:
        nvml = calls.nvml
        handle = calls(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = str(calls(nvml.nvmlDeviceGetUUID, handle))
        name = str(calls(nvml.nvmlDeviceGetName, handle))
        memo = Memo(self._periods, uuid, self._driver)
        return NvmlDevice(calls, index, handle, uuid, name, self._processes, self._reached, memo)

    def _watch(self) -> None:
        """Have Xids of the devices that answer reported, by their handles as they are now."""
        answering = [device for device in self._devices if not device.lost]
        if self._xids:
            self._xids.watch([Watched(one.handle, one.uuid, one.source, one.label) for one in answering])

    def _compare(self) -> list[Message]:
        before = self._same.found
        self._same.add({device.uuid: device.rows for device in self._devices if device.tells_windows})
        for device in self._devices:
            device.warning = SAYS if self._same.found and device.tells_windows else ""
        if before or not self._same.found:
            return []
        return [Note(time.monotonic_ns(), "same_readings", SAYS)]

    def _set_period(self, closer: bool) -> None:
        self.period = min([DRAIN_S, *(device.period for device in self._devices), *([CLOSER_S] if closer else [])])
