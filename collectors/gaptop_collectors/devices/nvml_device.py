"""One GPU: its groups of calls, each on its own schedule, and what they become on the stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Json, Message, Note, SourceInfo
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_fields import FIELDS, Fields
from gaptop_collectors.devices.nvml_gauges import PERIODS, Gauges
from gaptop_collectors.devices.nvml_ring import LAG_S
from gaptop_collectors.devices.nvml_utilization import LAG_NS, Gap, Utilization
from gaptop_collectors.signals import split_key
from gaptop_collectors.target import Processes

NAME: Final = "devices.nvml"
FIELDS_S: Final = 0.25
CLOSER_S: Final = 0.1
AGAIN_S: Final = 2.0
WINDOWS: Final = ("device.busy", "device.memory_busy")
OFFERED: Final = tuple(dict.fromkeys((*WINDOWS, *(split_key(key)[0] for key, _ in FIELDS.values()), *PERIODS)))
LIMITS: Final = tuple(key for key, _ in FIELDS.values() if split_key(key)[0] == "device.limit_seconds")


class NvmlDevice:
    """Driven by NvmlDevices.

    ``lost`` holds the driver's words while the device does not answer, else "". ``since_ns``: the time from which
    windows are wanted; a device that is opened again passes ``last_ns`` of before, and the ring fills what it can.
    """

    def __init__(
        self, calls: Calls, index: int, handle: Any, uuid: str, name: str, processes: Processes | None, since_ns: int
    ) -> None:
        self._calls = calls
        self._handle = handle
        self.uuid = uuid
        self.source = f"nvml/{uuid}"
        self.lost = ""
        self._index = index
        self._name = name
        self._mig = False
        self._utilization = Utilization(calls, since_ns)
        self._fields = Fields(calls)
        self._gauges = Gauges(calls, processes)
        self._fields_timer = Timer(FIELDS_S)
        self._again = Timer(AGAIN_S)
        self._sent: SourceInfo | None = None

    @property
    def period(self) -> float:
        return self._utilization.period

    @property
    def pids(self) -> Sequence[int]:
        """The server's processes on it when that was last asked; none where that cannot be known."""
        return self._gauges.occupants.pids or ()

    @property
    def last_ns(self) -> int:
        """The newest stamp given out."""
        return self._utilization.delivered_ns + LAG_NS

    def open(self) -> list[Message]:
        """Find out what the device offers, and its first readings. Raises CallFailed when it does not answer."""
        try:
            self._mig = self._calls(self._calls.nvml.nvmlDeviceGetMigMode, self._handle)[0] == 1
        except CallFailed as failed:
            if failed.trouble is Trouble.LOST:
                raise
        self._utilization.start(self._handle)
        messages: list[Message] = []
        self._sample(time.monotonic_ns(), messages)
        return messages

    def sample(self, closer: bool) -> list[Message]:
        """Everything that is due. ``closer``: power and counters at 10 Hz. Never raises for a device that is lost."""
        now = time.monotonic_ns()
        self._fields_timer.seconds = CLOSER_S if closer else FIELDS_S
        messages: list[Message] = []
        try:
            if self.lost:
                if not self._again.due(now / 1e9):
                    return []
                self._handle = self._calls(self._calls.nvml.nvmlDeviceGetHandleByUUID, self.uuid)
            self._sample(now, messages)
        except CallFailed as failed:
            return [*messages, *self._fail(failed)]
        if self.lost:
            self.lost = ""
            back = Note(now, "gpu_back", f"{self._label()} answers again.", self.source)
            return [self._tell(), back, *messages]
        return messages

    def _sample(self, now: int, messages: list[Message]) -> None:
        rows, gaps = self._utilization.read(self._handle, now)
        if self._sent != self._info():
            messages.append(self._tell())  # before the readings: a newly measured window is theirs
        messages += [self._hole(gap) for gap in gaps]
        if rows:
            values: dict[str, list[float | None]] = {"device.busy": [row.busy for row in rows]}
            if any(row.memory_busy is not None for row in rows):
                values["device.memory_busy"] = [row.memory_busy for row in rows]
            messages.append(Batch(self.source, [row.stamp_ns for row in rows], values))
        messages.append(Delivered(self.source, self._utilization.delivered_ns))
        instant: dict[str, float] = {}
        read_ns = time.monotonic_ns()
        if self._fields_timer.due(read_ns / 1e9):
            instant.update(self._fields.read(self._handle))
            self._fields_timer.done(read_ns / 1e9, self._calls.last_seconds)
        self._gauges.read(self._handle, read_ns / 1e9, instant)
        if instant:
            messages.append(Batch(self.source, [read_ns], {key: [value] for key, value in instant.items()}))
        if self._sent != self._info():
            messages.append(self._tell())

    def _fail(self, failed: CallFailed) -> list[Message]:
        now = time.monotonic_ns()
        messages: list[Message] = []
        if not self.lost:
            self.lost = failed.says
            says = f"{self._label()} does not answer any more ({failed.says})."
            messages = [self._tell(), Note(now, "gpu_lost", says, self.source, {"code": failed.code})]
        self._again.done(now / 1e9, 0)
        return [*messages, self._hole(self._utilization.lost(now)), Delivered(self.source, now - LAG_NS)]

    def _hole(self, gap: Gap) -> Hole:
        return Hole(self.source, gap.start_ns, gap.end_ns, gap.reason)

    def _label(self) -> str:
        return f"GPU {self._index} ({self._name})"

    def _tell(self) -> SourceInfo:
        self._sent = self._info()
        return self._sent

    def _info(self) -> SourceInfo:
        seen, unsupported = self._utilization, self._unsupported()
        pids = self._gauges.occupants.pids
        entity: dict[str, Json] = {
            "uuid": self.uuid,
            "name": self._name,
            "kind2": "gpu",
            "index": self._index,
            "pids": None if pids is None else list(pids),
        }
        polled = seen.mode == "polled"
        clock_error = seen.clock.error_s if seen.clock else LAG_S
        return SourceInfo(
            source=self.source,
            collector=NAME,
            kind="device",
            entity=entity,
            signals=[signal for signal in OFFERED if signal not in unsupported],
            period=FIELDS_S,
            unsupported=unsupported,
            window=seen.window_s,
            window_measured=seen.measured is not None,
            lag=LAG_S,
            error=seen.window_s / 2 if polled else clock_error,
            refresh="polled" if polled else "window",
            refresh_by_signal={signal: "poll" for signal in OFFERED if signal not in WINDOWS},
            period_by_signal=PERIODS,
            says=self._says(),
        )

    def _unsupported(self) -> dict[str, str]:
        gone = {**self._fields.unsupported, **self._gauges.unsupported}
        missing = [gone.pop(key) for key in LIMITS if key in gone]
        if len(missing) == len(LIMITS):
            gone["device.limit_seconds"] = missing[0]
        if self._utilization.mode == "unsupported":
            mig = "MIG is on, and NVML gives no utilisation for its slices; GPM (Hopper and newer) offers it"
            gone |= dict.fromkeys(WINDOWS, mig if self._mig else self._utilization.rates_unsupported)
        elif self._utilization.mode == "ring" and self._utilization.memory_unsupported:
            gone["device.memory_busy"] = self._utilization.memory_unsupported
        if self._gauges.occupants.why:
            gone.setdefault("device.foreign_processes", self._gauges.occupants.why)
        return gone

    def _says(self) -> str:
        seen = self._utilization
        window = f"{seen.window_s * 1000:.0f} ms"
        if self.lost:
            return (
                f"{self._label()} does not answer any more ({self.lost}), so its lanes have a hole from here: see "
                "dmesg for an Xid; in a container restart it (systemctl daemon-reload on the host takes devices away)."
            )
        if seen.mode == "unsupported":
            text = "This GPU tells no utilisation, so its valleys cannot be seen; power and clocks are shown."
        elif seen.mode == "polled":
            why = seen.ring_unsupported or "the driver's ring stands still"
            text = f"Utilisation is polled ({why}); windows of {window} {'measured' if seen.measured else 'assumed'}."
        elif seen.measured:
            jitter = f"{seen.measured.jitter * 1000:.0f} ms"
            text = f"Every utilisation window from the driver's ring: {window} measured, jitter {jitter}."
        else:
            text = f"Every utilisation window from the driver's ring: {window} assumed until the GPU has been busy."
        if seen.clock and seen.clock.domain == "anchored":
            text += " The driver's stamps are of no known clock and were anchored to their arrival."
        if self._fields.power_is_legacy:
            text += " Power is GetPowerUsage, which may be a one-second mean on this card."
        return text
