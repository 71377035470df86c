"""One MIG slice as a device of its own: its utilisation (GPM only), its memory, who is on it.

Power, clocks and temperature belong to the whole GPU, which stays a source beside its slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.devices.nvml_calls import NAME, CallFailed, Calls
from gaptop_collectors.devices.nvml_gauges import PERIODS, Gauges
from gaptop_collectors.devices.nvml_gpm import NOT_HERE, Gpm, Reading
from gaptop_collectors.devices.nvml_gpm_request import BUSY, SIGNALS
from gaptop_collectors.devices.nvml_mapping import mapping
from gaptop_collectors.target import Processes

OWN: Final = ("device.memory_used", "device.memory_total", "device.foreign_processes")
WHOLE: Final = tuple(signal for signal in PERIODS if signal not in OWN)
OFFERED: Final = ("device.busy", *(signal for signal in SIGNALS if signal != BUSY), *OWN)
NO_GPM: Final = (
    "MIG is on, and NVML gives no utilisation for its slices but through GPM (Hopper and newer), which this GPU lacks: "
    "a dcgm-exporter offers it (gaptop --dcgm URL)"
)
ERROR_S: Final = 0.025
"""A GPM sample was taken at some moment of its call, which is half of UNSURE_NS off its middle at most."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The GPU that a slice is cut from; ``label`` names it for people."""

    uuid: str
    label: str
    index: int
    handle: Any


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice as NVML lists it. ``profile``: such as ``1g.10gb``. ``instance``: its GPU instance, which it may share
    with other compute instances."""

    uuid: str
    name: str
    profile: str
    instance: int
    handle: Any


class NvmlSlice:
    """``lost``: why it does not answer any more; its GPU is then asked anew which slices there are."""

    def __init__(self, calls: Calls, parent: Parent, cut: Cut, processes: Processes | None, since_ns: int) -> None:
        self._calls = calls
        self._parent = parent
        self.cut = cut
        self.source = f"nvml/{cut.uuid}"
        self.lost = ""
        self.shared = False
        self._since_ns = since_ns
        self._gpm = Gpm(calls)
        self._gauges = Gauges(calls, processes)
        self._gauges.unsupported |= dict.fromkeys(WHOLE, f"it is of the whole GPU: see {parent.label}")
        self._measured = False
        self._sent: SourceInfo | None = None

    @property
    def last_ns(self) -> int:
        """How far its utilisation has been told."""
        return self._since_ns

    @property
    def pids(self) -> Sequence[int]:
        return self._gauges.occupants.pids or ()

    @property
    def doubtful(self) -> bool:
        """It may be gone, or another one by now."""
        return bool(self.lost or self._gpm.trouble)

    @property
    def gpm(self) -> bool:
        return self._gpm.works

    def open(self) -> None:
        """Raises CallFailed when its GPU is lost."""
        nvml = self._calls.nvml
        handle, instance = self._parent.handle, self.cut.instance
        self._gpm.start(self._since_ns, handle, nvml.nvmlGpmMigSampleGet, handle, instance)

    def sample(self, now: int) -> list[Message]:
        """Everything that is due. Never raises for a slice that is gone."""
        messages: list[Message] = []
        if self.lost:
            return self._missing(now, "the MIG slice does not answer")
        values: dict[str, float] = {}
        try:
            reading = self._gpm.read(now)
            if reading and self._gpm.why and self._measured:
                raise _Gone(self._gpm.why)
            self._gauges.read(self.cut.handle, now / 1e9, values)
        except (CallFailed, _Gone) as failed:
            return self.fail(now, str(failed))
        self._measured |= bool(reading and reading.values)
        messages += self._tell()
        if reading:
            messages += self._told(reading)
        elif self._gpm.why:
            self._since_ns = now
        if values:
            messages.append(Batch(self.source, [now], {key: [value] for key, value in values.items()}))
        return [*messages, Delivered(self.source, self._since_ns)]

    def fail(self, now: int, why: str) -> list[Message]:
        """It does not answer, or is there no more: it is closed, and what was not told until now is a hole."""
        self.lost = why
        self.close()
        return [*self._tell(), *self._missing(now, why)]

    def close(self) -> None:
        self._gpm.close()

    def _missing(self, now: int, reason: str) -> list[Message]:
        start, self._since_ns = self._since_ns, max(now, self._since_ns)
        return [Hole(self.source, start, self._since_ns, reason), Delivered(self.source, self._since_ns)]

    def _told(self, reading: Reading) -> list[Message]:
        self._since_ns = reading.end_ns
        if not reading.values:
            return [Hole(self.source, reading.start_ns, reading.end_ns, reading.missing)]
        # device.busy *is* GPM's graphics activity here: giving both would make one witness look like two.
        values = {"device.busy" if key == BUSY else key: [value] for key, value in reading.values.items()}
        return [Batch(self.source, [reading.end_ns], values)]

    def _tell(self) -> list[Message]:
        info = self._info()
        if info == self._sent:
            return []
        self._sent = info
        return [info]

    def _info(self) -> SourceInfo:
        unsupported = self._unsupported()
        window = self._gpm.window_s
        pids = self._gauges.occupants.pids
        return SourceInfo(
            source=self.source,
            collector=NAME,
            kind="device",
            entity={
                "uuid": self.cut.uuid,
                "name": self.cut.name,
                "kind2": "gpu",
                "index": self._parent.index,
                "pids": None if pids is None else list(pids),
                "parent": self._parent.uuid,
                "slice": self.cut.profile,
            },
            signals=[signal for signal in OFFERED if signal not in unsupported],
            period=window,
            unsupported=unsupported,
            window=window,
            window_measured=self._measured,
            error=ERROR_S,
            refresh="gpm",
            refresh_by_signal=dict.fromkeys(OWN, "poll"),
            period_by_signal={signal: self._gauges.periods[signal] for signal in OWN},
            says=self._says(),
        )

    def _unsupported(self) -> dict[str, str]:
        gone = {**self._gauges.unsupported}
        if self._gauges.occupants.why:
            gone.setdefault("device.foreign_processes", self._gauges.occupants.why)
        lacking = self._gpm.unsupported
        if self._gpm.why == NOT_HERE:
            lacking = dict.fromkeys(SIGNALS, NO_GPM)
        gone |= {"device.busy" if signal == BUSY else signal: why for signal, why in lacking.items()}
        gone[BUSY] = lacking.get(BUSY, "device.busy is read from it here")
        gone["device.memory_busy"] = "NVML gives it for whole GPUs only"
        return gone

    def _says(self) -> str:
        name = f"MIG slice {self.cut.profile} of {self._parent.label}"
        if self.lost:
            return f"{name} does not answer any more ({self.lost}), so its lanes have a hole from here."
        if self._gpm.why:
            why = NO_GPM if self._gpm.why == NOT_HERE else self._gpm.why
            text = f"{name} tells no utilisation, so its valleys cannot be seen: {why}."
        else:
            known = "measured" if self._measured else "meant: no two samples have given a mean yet"
            text = f"{name}: utilisation from GPM, means over {self._gpm.window_s * 1000:.0f} ms ({known})."
        if self._gpm.trouble:
            text += f" {self._gpm.trouble}; asked again every few seconds."
        if self._gpm.dropped:
            text += " GPM gave values outside 0..100 %, which were dropped."
        if self.shared:
            text += " It shares its GPU instance with other slices, and GPM counts them together."
        return text + mapping(self._gauges)


class _Gone(Exception):
    """GPM worked and is refused now: the slice was taken away, or made anew under the same name."""
