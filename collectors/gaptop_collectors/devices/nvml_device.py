"""One GPU: its groups of calls, each on its own schedule, and what they become on the stream."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, Note, SourceInfo
from gaptop_collectors.devices import nvml_environment, nvml_info
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_fields import Fields
from gaptop_collectors.devices.nvml_gauges import Gauges
from gaptop_collectors.devices.nvml_gpm import INTERVAL_S, Gpm, Reading
from gaptop_collectors.devices.nvml_gpm_request import BUSY
from gaptop_collectors.devices.nvml_info import FIELDS_S, Parts
from gaptop_collectors.devices.nvml_memo import Memo
from gaptop_collectors.devices.nvml_mig import MigSlices
from gaptop_collectors.devices.nvml_utilization import LAG_NS, Gap, Row, Utilization
from gaptop_collectors.target import Processes

CLOSER_S: Final = 0.1
AGAIN_S: Final = 2.0
DESCRIBED_S: Final = 1.0
"""Whether the description has changed is looked at each second: to make one costs as much as the readings do."""
REFUSED_S: Final = 30.0
"""A utilisation that worked and was then refused is asked for again after so long."""


class NvmlDevice:
    """Driven by NvmlDevices.

    ``lost`` holds the driver's words while the device does not answer, else "". ``reached``: up to where each device
    was told before, by UUID (a GPU's rings fill what they can); what is new in it begins now.
    """

    def __init__(
        self,
        calls: Calls,
        index: int,
        handle: Any,
        uuid: str,
        name: str,
        processes: Processes | None,
        reached: Mapping[str, int],
        memo: Memo,
    ) -> None:
        self._calls = calls
        self.handle = handle
        self.uuid = uuid
        self.label = f"GPU {index} ({name})"
        self.source = f"nvml/{uuid}"
        self.lost = ""
        self.took = 0.0
        """Seconds that the last sample took."""
        self.rows: Sequence[Row] = ()
        """The windows of the last sample."""
        self.warning = ""
        """A sentence on what is wrong with its readings, seen from beside the other GPUs."""
        self.without_xids = False
        """Its Xids are not reported to NVML (vGPU, WSL2, Jetson, an older driver)."""
        self._index = index
        self._name = name
        self._processes = processes
        self._memo = memo
        self._traits = nvml_environment.traits(calls, handle)
        self._lost_code = 0
        self._own_seconds = 0.0
        self._own_from = calls.cost.seconds
        self._slices = MigSlices(calls, uuid, self.label, index, processes, reached)
        self._parts = self._made(reached.get(uuid, time.monotonic_ns()))
        self._fields_timer = Timer(FIELDS_S)
        self._again = Timer(AGAIN_S)
        self._described = Timer(DESCRIBED_S)
        self._refused: Timer | None = None
        self._sent: SourceInfo | None = None
        self._told_windows: tuple[object, ...] = ()

    @property
    def period(self) -> float:
        return min(self._parts.utilization.period, self._usual)

    @property
    def closely(self) -> bool:
        """It is polled closely for a few seconds, to learn its window."""
        return not self.lost and self._parts.utilization.closely

    @property
    def slices(self) -> int:
        return self._slices.count

    @property
    def _usual(self) -> float:
        return INTERVAL_S if self._parts.gpm.works or self._slices.gpm else FIELDS_S

    @property
    def _own_now(self) -> float:
        """Seconds of all calls for this device, while it is being sampled."""
        return self._own_seconds + self._calls.cost.seconds - self._own_from

    @property
    def tells_windows(self) -> bool:
        """Whether its utilisation is the driver's own."""
        return not self.lost and self._parts.utilization.mode != "unsupported"

    @property
    def pids(self) -> Sequence[int]:
        """The server's processes on it when that was last asked; none where that cannot be known."""
        return [*(self._parts.gauges.occupants.pids or ()), *self._slices.pids]

    @property
    def reached(self) -> dict[str, int]:
        """The newest stamp given out, of it and its slices."""
        return self._slices.reached | {self.uuid: self._parts.utilization.delivered_ns + LAG_NS}

    def open(self) -> list[Message]:
        """Find out what the device offers, and its first readings. Raises CallFailed when it does not answer."""
        now, self._own_from = time.monotonic_ns(), self._calls.cost.seconds
        self._calls.source = self.source
        messages = self._slices.look(self.handle, now)
        self._start(now)
        self._sample(now, messages)
        self._own_seconds = self._own_now
        return messages

    def sample(self, closer: bool) -> list[Message]:
        """Everything that is due. ``closer``: power and counters at 10 Hz. Never raises for a device that is lost."""
        now, self._own_from = time.monotonic_ns(), self._calls.cost.seconds
        self._calls.source = self.source
        self._fields_timer.seconds = CLOSER_S if closer else self._usual
        self._parts.utilization.drain_every(self._usual)
        self.rows = ()
        messages: list[Message] = []
        try:
            if self.lost:
                if not self._again.due(now / 1e9):
                    return []
                self.handle = self._calls(self._calls.nvml.nvmlDeviceGetHandleByUUID, self.uuid)
                messages += self._slices.look(self.handle, now)
                self._start_gpm(now)
            self._sample(now, messages)
        except CallFailed as failed:
            return [*messages, *self._fail(failed)]
        finally:
            self.took = (time.monotonic_ns() - now) / 1e9
            self._own_seconds = self._own_now
        if self.lost:
            self.lost = ""
            back = Note(now, "gpu_back", f"{self.label} answers again.", self.source)
            return [self._tell(), back, *messages]
        return messages

    def close(self) -> None:
        """Free what was opened: before nvmlShutdown."""
        self._slices.close()
        self._parts.gpm.close()

    def _made(self, since_ns: int) -> Parts:
        calls = self._calls
        utilization = Utilization(calls, since_ns, self._memo.period)
        shares = nvml_environment.shares_memory(self._name)
        gauges = Gauges(calls, self._processes, utilization.answers, shares_memory=shares)
        return Parts(utilization, Fields(calls, utilization.answers), gauges, Gpm(calls))

    def _start(self, now: int) -> None:
        self._parts.utilization.start(self.handle)
        self._start_gpm(now)

    def _start_gpm(self, now: int) -> None:
        """With MIG on it belongs to the slices."""
        if not self._slices.on:
            self._parts.gpm.start(now, self.handle, self._calls.nvml.nvmlGpmSampleGet, self.handle)

    def _sample(self, now: int, messages: list[Message]) -> None:
        was_on = self._slices.on
        messages += self._slices.look(self.handle, now)
        if self._slices.on != was_on:
            messages += self._switched(now)
        # GPM first: its windows are as long as the distance of its calls, while the rings wait for theirs.
        reading = self._parts.gpm.read(now)
        rows, gaps = self._read_utilization(now)
        self.rows = rows
        self._learn(rows, reading)
        if self._told_windows != self._windows():
            messages.append(self._tell())  # before the readings: a newly measured window is theirs
        messages += [self._hole(gap) for gap in gaps]
        if rows:
            values: dict[str, list[float | None]] = {"device.busy": [row.busy for row in rows]}
            if any(row.memory_busy is not None for row in rows):
                values["device.memory_busy"] = [row.memory_busy for row in rows]
            messages.append(Batch(self.source, [row.stamp_ns for row in rows], values))
        messages.append(Delivered(self.source, self._parts.utilization.delivered_ns))
        if reading:
            messages += self._told(reading)
        messages += self._slices.sample(now)
        instant: dict[str, float] = {}
        read_ns = time.monotonic_ns()
        if self._fields_timer.due(read_ns / 1e9):
            instant.update(self._parts.fields.read(self.handle))
            instant["device.own_calls"] = round(self._own_now, 6)
            self._fields_timer.asked(read_ns / 1e9, self._calls.stretch)
        self._parts.gauges.read(self.handle, read_ns / 1e9, instant)
        if instant:
            messages.append(Batch(self.source, [read_ns], {key: [value] for key, value in instant.items()}))
        if self._described.due(read_ns / 1e9):
            self._described.asked(read_ns / 1e9)
            if self._sent != self._info():
                messages.append(self._tell())

    def _learn(self, rows: Sequence[Row], reading: Reading | None) -> None:
        utilization = self._parts.utilization
        if utilization.mode == "ring":
            self._memo.windows(rows, utilization.window_s)
            if reading and BUSY in reading.values:
                self._memo.gpm(reading.start_ns, reading.end_ns, reading.values[BUSY])
        self._memo.keep(utilization.window)

    def _read_utilization(self, now: int) -> tuple[list[Row], list[Gap]]:
        """A driver that refuses what it gave before shows another kind of GPU now (MIG was switched on)."""
        if self._refused and self._parts.utilization.mode == "unsupported" and self._refused.due(now / 1e9):
            self._renew(now)
            self._refused.asked(now / 1e9)
        utilization = self._parts.utilization
        try:
            return utilization.read(self.handle, now)
        except CallFailed as failed:
            if failed.trouble is Trouble.LOST:
                raise
            self._renew(now)
            self._refused = Timer(REFUSED_S)
            self._refused.asked(now / 1e9)
            return [], [Gap(utilization.delivered_ns, now - LAG_NS, "the driver refuses its utilisation now")]

    def _switched(self, now: int) -> list[Message]:
        """MIG was switched on or off."""
        state = "on" if self._slices.on else "off"
        gap = Gap(self._parts.utilization.delivered_ns, now - LAG_NS, f"MIG was switched {state}")
        self._renew(now)
        note = Note(now, "mig_changed", f"MIG was switched {state} on {self.label}.", self.source, {"mig": state})
        return [note, self._hole(gap)]

    def _renew(self, now: int) -> None:
        self._parts.gpm.close()
        self._parts = self._made(now)
        self._start(now)

    def _told(self, reading: Reading) -> list[Message]:
        """Its stamps are later by LAG_S, for readings of this source describe windows that ended LAG_S before them."""
        if reading.values:
            values = reading.values
            if self._parts.gpm_is_busy:
                values = {"device.busy" if key == BUSY else key: value for key, value in values.items()}
            return [Batch(self.source, [reading.end_ns + LAG_NS], {key: [value] for key, value in values.items()})]
        if not self._parts.gpm_is_busy:
            return []  # a hole would cut the ring's windows, too; where nothing was read, nothing is drawn
        return [self._hole(Gap(reading.start_ns, reading.end_ns, reading.missing))]

    def _fail(self, failed: CallFailed) -> list[Message]:
        now = time.monotonic_ns()
        messages: list[Message] = []
        if not self.lost:
            self.lost, self._lost_code = failed.says, failed.code
            self._parts.fields.restart()
            self._parts.gpm.close()
            says = f"{self.label} does not answer any more ({failed.says})."
            messages = [self._tell(), Note(now, "gpu_lost", says, self.source, {"code": failed.code})]
        self._again.asked(now / 1e9)
        messages.append(self._hole(self._parts.utilization.lost(now)))
        return [*messages, Delivered(self.source, now - LAG_NS), *self._slices.fail(now)]

    def _hole(self, gap: Gap) -> Hole:
        return Hole(self.source, gap.start_ns, gap.end_ns, gap.reason)

    def _windows(self) -> tuple[object, ...]:
        """What readings of windows cannot be understood without."""
        seen, gpm = self._parts.utilization, self._parts.gpm
        return seen.mode, seen.window_s, seen.clock and seen.clock.domain, gpm.works, gpm.window_s

    def _tell(self) -> SourceInfo:
        self._sent, self._told_windows = self._info(), self._windows()
        return self._sent

    def _info(self) -> SourceInfo:
        parts, machine = self._parts, self._calls.machine
        if self.lost:
            says = nvml_environment.lost(self.label, self._index, self.lost, self._lost_code, machine)
        else:
            utilisation = parts.utilization.mode != "unsupported" or parts.gpm_is_busy or self._slices.on
            remarks = nvml_environment.remarks(self._name, machine, self._traits, utilisation)
            says = nvml_info.says(parts, self._slices, self._memo.rounding)
            xids = "Xid errors are not reported here: look for them in dmesg." if self.without_xids else ""
            says = " ".join(filter(None, [says, self.warning, xids, *remarks]))
        rounding = self._memo.rounding
        return nvml_info.source_info(
            self.source, self.uuid, self._name, self._index, parts, self._slices, rounding, says
        )
