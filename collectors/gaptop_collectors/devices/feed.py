"""The lab's device: readings that a simulation appends to a file, one JSON object a line.

    {"uuid": "SIM-0", "name": "Simulated GPU", "window_s": 0.2, "t_ns": 123456789, "busy": 0.75, "rounding": "nearest",
     "power_w": 310.0, "clock_hz": 1.98e9, "limit_reasons": 0}

``t_ns``: CLOCK_MONOTONIC nanoseconds at the end of the window of ``window_s`` seconds. ``busy``: 0..1, or null for a
window that was not observed. ``rounding``: how ``busy`` was made whole per cents (``nearest`` or ``down``; left out: it
was not). What may be left out: ``power_w``, ``clock_hz``, ``limit_reasons`` (NVML's bitmask), ``foreign_processes``
(how many are not the server's), and ``pids`` (the server's processes on the device; left out: nobody knows). Several
devices may share a file; each one's lines come in the order of time.

A line without its newline is not read yet. A line that is no such object is skipped and counted in ``says``. A file
that is not there (yet) is absent; one that was replaced or shortened is read again from its start.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Message, Rounding, SourceInfo

PERIOD_S: Final = 0.2
READ_BYTES: Final = 1 << 20
LINE_BYTES: Final = 1 << 16
OPTIONAL: Final = {
    "power_w": "device.power",
    "clock_hz": "device.clock_sm",
    "limit_reasons": "device.limit_reasons",
    "foreign_processes": "device.foreign_processes",
}
ROUNDINGS: Final[dict[str, Rounding]] = {"nearest": "nearest", "down": "down"}


@dataclass(slots=True)
class Device:
    """A simulated device: what is known of it, and its readings that are not given out yet."""

    uuid: str
    name: str
    window_s: float
    index: int
    rounding: Rounding = ""
    reached_ns: int = 0
    pids: list[int] | None = None
    signals: set[str] = field(default_factory=set)
    times: list[int] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    sent: SourceInfo | None = None


class FeedDevice:
    """Tails one file. ``path``: the file, written by ``gaptop demo`` or a test."""

    deadline = 0.5

    def __init__(self, path: str) -> None:
        self.name = "devices.feed"
        self.period = PERIOD_S
        self._path = path
        self._descriptor: int | None = None
        self._identity = (0, 0)
        self._offset = 0
        self._partial = b""
        self._bad = 0
        self._devices: dict[str, Device] = {}

    def open(self) -> Sequence[Message]:
        self._attach()
        return self.sample()

    def sample(self) -> Sequence[Message]:
        self._follow()
        for line in self._lines():
            self._take(line)
        return [message for device in self._devices.values() for message in self._give(device)]

    def boost(self, seconds: float) -> None:
        """Every window is read anyway."""

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _attach(self) -> None:
        self.close()
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CollectorError(
                f"The simulated device's feed {self._path} cannot be read ({error.strerror}), so its lane stays empty "
                "until the simulation writes it.",
                state="refused" if isinstance(error, PermissionError) else "absent",
            ) from None
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self._offset, self._partial = 0, b""

    def _follow(self) -> None:
        """Start again at the beginning of a file that was replaced or cut."""
        if self._descriptor is None:
            self._attach()
            return
        try:
            status = os.stat(self._path)
        except OSError:
            return  # removed: what was written before is still read
        if (status.st_dev, status.st_ino) != self._identity or status.st_size < self._offset:
            self._attach()

    def _lines(self) -> list[bytes]:
        assert self._descriptor is not None
        data = os.pread(self._descriptor, READ_BYTES, self._offset)
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > LINE_BYTES:
            self._partial = b""
            self._bad += 1
        return lines

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            body = json.loads(line)
            uuid, time_ns, window_s = body["uuid"], body["t_ns"], float(body["window_s"])
            values: dict[str, float | None] = {"device.busy": _number(body["busy"], 0, 1)}
            for name, signal in OPTIONAL.items():
                if name in body:
                    values[signal] = _number(body[name], 0, math.inf)
            pids = body.get("pids")
            if pids is not None and not (isinstance(pids, list) and all(type(pid) is int for pid in pids)):
                raise ValueError
            if not isinstance(uuid, str) or not isinstance(time_ns, int) or not 0 < window_s < 60:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            self._bad += 1
            return
        device = self._devices.get(uuid)
        if device is None:
            device = Device(uuid, str(body.get("name") or uuid), window_s, len(self._devices))
            self._devices[uuid] = device
        if time_ns <= device.reached_ns:
            return  # read before: the file was replaced by one with the same beginning
        device.window_s, device.reached_ns = window_s, time_ns
        device.pids = pids
        device.rounding = ROUNDINGS.get(str(body.get("rounding")), "")
        device.signals |= values.keys()
        for signal in device.signals:
            column = device.values.setdefault(signal, [None] * len(device.times))
            column.append(values.get(signal))
        device.times.append(time_ns)

    def _give(self, device: Device) -> list[Message]:
        info = self._info(device)
        messages: list[Message] = []
        if info != device.sent:
            device.sent = info
            messages.append(info)
        if device.times:
            messages.append(Batch(info.source, device.times, device.values))
            messages.append(Delivered(info.source, device.reached_ns))
            device.times, device.values = [], {}
        return messages

    def _info(self, device: Device) -> SourceInfo:
        says = "Simulated device: these numbers come from gaptop's lab, not from hardware."
        if self._bad:
            says += f" {self._bad} unreadable lines were skipped."
        return SourceInfo(
            source=f"feed/{device.uuid}",
            collector=self.name,
            kind="device",
            entity={
                "uuid": device.uuid,
                "name": device.name,
                "kind2": "gpu",
                "index": device.index,
                "pids": device.pids,
            },
            signals=sorted(device.signals),
            period=device.window_s,
            window=device.window_s,
            window_measured=True,
            rounding=device.rounding,
            says=says,
        )


def _number(value: object, low: float, high: float) -> float | None:
    """None for null. Raises ValueError for what is no number in low..high (NaN and infinities included)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or math.isinf(value):
        raise ValueError
    return float(value)
