"""The GPUs' sources, described and delivered as ``devices/nvml.py`` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from gaptop.lab.core.events import Condition, DeviceSpan, Limit
from gaptop.lab.fast.device import SimulatedDevice, whole
from gaptop.lab.fast.links import NVLINK_RATE, PCIE_RATE, Link
from gaptop.lab.fast.ring import JITTER, NO_ENTRY, Ring
from gaptop.lab.fast.told import source_line
from gaptop.lab.fast.view import View
from gaptop.recording.lines import Batch, Event, Health, Hole, Line, Watermark
from gaptop_collectors.collector import Json, Rounding, SourceInfo
from gaptop_collectors.devices import nvml_says
from gaptop_collectors.devices.nvml_calls import NAME
from gaptop_collectors.devices.nvml_gauges import PERIODS
from gaptop_collectors.devices.nvml_gpm import INTERVAL_S, NOT_HERE
from gaptop_collectors.devices.nvml_gpm_request import SIGNALS
from gaptop_collectors.devices.nvml_info import OFFERED, WINDOWS
from gaptop_collectors.devices.nvml_ring import ASSUMED_WINDOW_S, ENOUGH, LAG_S, Period
from gaptop_collectors.signals import series_key

ABSENT: Final = (
    "No NVIDIA driver library (libnvidia-ml.so.1) on this machine, so no GPU can be seen: install the driver, or in a "
    "container start it with --gpus all."
)
_GPU: Final = "Simulated GPU (lab)"
_NO_FIELD: Final = "this GPU or its driver does not offer it"
_NO_LATENCY: Final = "this driver does not tell how long its fields take"
_CALLS: Final = 0.0006
"""Seconds of driver calls a round (a real one: 0.3 to 1 ms)."""
_TOTAL_BYTES: Final = 24 * 2**30
_CONTEXT: Final = 0.02
"""Share of the memory that another process holds: about 0.5 GiB of a context and small buffers."""
_LIMIT_WATTS: Final = 450.0
_MEMORY_HERTZ: Final = 10.5e9
_PCIE_BUSY: Final = 2.5e6
"""Bytes a second over PCIe that launching and sampling move; a bulk copy moves what the link takes."""
BULK: Final = frozenset({"copy", "kv_transfer", "load"})
"""Host phases that move much over PCIe."""
_NVLINK: Final = ("device.nvlink_rx", "device.nvlink_tx")
_SLOW_CALL_S: Final = 0.02


class Gpus:
    """All devices of the server on one schedule, as one collector reads them."""

    def __init__(self, view: View, pids: Sequence[Sequence[int]], ranks: int, zero: float, rng: Random) -> None:
        """``pids``: the server's processes on each device; ``ranks`` share each step."""
        count = len(pids)
        self._view = view
        self._zero = zero
        self._pids = pids
        self.devices = [SimulatedDevice(view.window_s, rng.random() * view.window_s, zero) for _ in range(count)]
        lag = view.ring_lag_s
        self._rings = [
            Ring(view.window_s, lag, view.ring_late, view.ring_lost, Random(rng.random())) for _ in range(count)
        ]
        self._links = [Link(ranks, NVLINK_RATE if view.nvlink else PCIE_RATE) for _ in range(count)]
        self.sources = [f"nvml/{uuid(index)}" for index in range(count)]
        self._period = min(view.drain_s, INTERVAL_S) if view.gpm else view.drain_s
        self.due = zero + 0.2 + 0.05 * rng.random()
        self._clocks_due = self._slow_due = self._listed_due = 0.0
        self._told = [0] * count
        self._worked = [False] * count
        self._sent: list[SourceInfo | None] = [None] * count
        self._own = 0.0
        self._calls: list[Condition] = []
        self._foreign: list[Condition] = []
        self._resident: list[Condition] = []
        self._moved = [0.0] * count
        self._bulk: list[tuple[float, float]] = []
        self._bulk_read = zero
        self.newest: list[float | None] = [None] * count

    def add(self, span: DeviceSpan) -> None:
        self.devices[span.device].add(span)
        self._links[span.device].add(span)

    def limit(self, limit: Limit) -> None:
        self.devices[limit.device].limit(limit)

    def condition(self, condition: Condition) -> None:
        """``own_call``, ``foreign`` or ``foreign_idle``."""
        kinds = {"own_call": self._calls, "foreign": self._foreign, "foreign_idle": self._resident}
        kinds[condition.what].append(condition)

    def bulk(self, start: float, end: float) -> None:
        """A host thread waits for a bulk copy over PCIe."""
        self._bulk.append((start, end))

    def act(self, now: float) -> Iterator[Line]:
        """One round of calls; one that our own slow call holds up comes back when that ends."""
        held = next((call for call in self._calls if call.start <= now < call.end), None)
        if held is not None:
            self.due = held.end
            return
        done = [call for call in self._calls if call.end <= now]
        self._calls = [call for call in self._calls if call.end > now]
        self._own += _CALLS + sum(call.end - call.start for call in done)
        moved = self._bulk_seconds(now) * PCIE_RATE
        clocks, slow, listed = now >= self._clocks_due, now >= self._slow_due, now >= self._listed_due
        if clocks:
            self._clocks_due = now + 0.47
        if slow:
            self._slow_due = now + 1.97
        if listed:
            self._listed_due = now + 4.97
        for index, device in enumerate(self.devices):
            yield from self._windows(index, device, now)
            if self._view.gpm:
                yield from self._gpm(index, device, now)
            else:
                device.skip_gpm(now)
            device.read(now)
            instant = self._instant(index, device, moved, self._links[index].read(now))
            if clocks:
                instant |= self._clocked(device)
            if slow:
                instant |= self._slowly(device, self._others(device, now))
            if listed:
                instant["device.foreign_processes"] = self._others(device, now)
            yield Batch(self.sources[index], (self._t(now),), {key: (value,) for key, value in instant.items()})
        for call in done:
            if call.end - call.start > _SLOW_CALL_S:
                yield self._slow_call(call)
        self.due = max(now, self.due) + self._period

    def health(self, now: float) -> Iterator[Health]:
        for source, info, newest in zip(self.sources, self._sent, self.newest, strict=True):
            yield Health(self._t(now), source, NAME, "ok", newest, self._period, None, info.says if info else "")

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _windows(self, index: int, device: SimulatedDevice, now: float) -> Iterator[Line]:
        view, source = self._view, self.sources[index]
        windows = device.windows(now - view.ring_lag_s)
        found = self._rings[index].drain((item for item in windows if item.end - view.window_s >= self._zero), now)
        self._told[index] += len(found)
        self._worked[index] |= any(item.window.busy > 0 for item in found)
        measured = self._told[index] >= ENOUGH and self._worked[index]
        sent = self._sent[index]
        if sent is None or sent.window_measured != measured:
            self._sent[index] = info = self._info(index, measured)
            yield source_line(self._t(now), info)
        if not found:
            return
        for item in found:
            if item.missed is not None:
                yield Hole(source, self._t(item.missed[0]), self._t(item.missed[1]), NO_ENTRY)
        times = [self._t(item.stamp) for item in found]
        values = {
            "device.busy": [whole(item.window.busy, view.rounding) for item in found],
            "device.memory_busy": [whole(item.window.memory, view.rounding) for item in found],
        }
        yield Batch(source, times, values)
        self.newest[index] = times[-1]
        yield Watermark(source, round(times[-1] - LAG_S, 6))

    def _gpm(self, index: int, device: SimulatedDevice, now: float) -> Iterator[Line]:
        part = device.gpm(now)
        values = dict(zip(SIGNALS, (part.busy, part.sm, part.tensor, part.dram), strict=True))
        at = self._t(now + LAG_S)
        yield Batch(self.sources[index], (at,), {key: (round(value, 5),) for key, value in values.items()})

    def _instant(self, index: int, device: SimulatedDevice, moved: float, linked: float) -> dict[str, float]:
        self._moved[index] += moved
        values: dict[str, float] = {}
        if self._view.power:
            values["device.power"] = round(device.power, 3)
            values["device.power_average"] = round(device.power_average, 3)
            values["device.energy"] = round(device.energy, 3)
        sent = device.energy / 250 * _PCIE_BUSY
        if self._view.nvlink:
            values |= dict.fromkeys(_NVLINK, float(int(linked)))
        else:
            sent += linked
        values["device.pcie_tx"] = float(int(sent))
        values["device.pcie_rx"] = float(int(sent + self._moved[index]))
        for reason, seconds in device.limited.items():
            values[series_key("device.limit_seconds", reason=reason)] = round(seconds, 6)
        values["device.own_calls"] = round(self._own, 6)
        return values

    @staticmethod
    def _clocked(device: SimulatedDevice) -> dict[str, float]:
        return {
            "device.clock_sm": device.clock_hertz,
            "device.clock_memory": _MEMORY_HERTZ,
            "device.limit_reasons": float(device.reasons),
        }

    @staticmethod
    def _slowly(device: SimulatedDevice, others: float) -> dict[str, float]:
        return {
            "device.temperature": float(round(device.temperature)),
            "device.power_limit": _LIMIT_WATTS,
            "device.memory_total": float(_TOTAL_BYTES),
            "device.memory_used": float(int(min(0.99, 0.93 + _CONTEXT * others) * _TOTAL_BYTES)),
        }

    def _others(self, device: SimulatedDevice, now: float) -> float:
        """Foreign processes now: on the device that runs their work, on all where none of it was seen; and on all those
        that only hold memory."""
        self._foreign = [item for item in self._foreign if item.end > now]
        here = sum(item.value for item in self._foreign if item.start <= now)
        known = any(other.foreign_until > float("-inf") for other in self.devices)
        working = here if not known or device.foreign_until > float("-inf") else 0.0
        return working + sum(item.value for item in self._resident if item.start <= now < item.end)

    def _bulk_seconds(self, now: float) -> float:
        since, self._bulk_read = self._bulk_read, now
        found = sum(max(0.0, min(end, now) - max(start, since)) for start, end in self._bulk)
        self._bulk = [item for item in self._bulk if item[1] > now]
        return found

    def _slow_call(self, call: Condition) -> Event:
        seconds = call.end - call.start
        says = f"gaptop's own call of GetProcesses took {seconds * 1000:.0f} ms and may have held the driver's lock."
        data = {"collector": NAME, "call": "GetProcesses", "seconds": round(seconds, 4), "not_noted": 0}
        return Event(self._t(call.end), "our_slow_call", says, self.sources[0], data)

    def _info(self, index: int, measured: bool) -> SourceInfo:
        view = self._view
        window = view.window_s if measured else ASSUMED_WINDOW_S
        found = Period(round(window, 3), JITTER, self._told[index]) if measured else None
        rounding: Rounding = view.rounding if view.gpm else "percent"
        lacking = self._lacking()
        gpm = [signal for signal in SIGNALS if signal not in lacking]
        pids: Json = list(self._pids[index])
        says = nvml_says.from_ring(nvml_says.resolution(window, found, False), "epoch", rounding, None, window)
        if view.gpm:
            says += f" GPM shows SM, tensor and memory activity over {INTERVAL_S * 1000:.0f} ms."
        return SourceInfo(
            source=self.sources[index],
            collector=NAME,
            kind="device",
            entity={"uuid": uuid(index), "name": _GPU, "kind2": "gpu", "index": index, "pids": pids},
            signals=[signal for signal in OFFERED if signal not in lacking],
            period=0.25,
            unsupported=lacking,
            window=round(window, 3),
            window_measured=measured,
            lag=LAG_S,
            error=LAG_S,
            refresh="window",
            refresh_by_signal=dict.fromkeys((name for name in OFFERED if name not in (*WINDOWS, *SIGNALS)), "poll")
            | dict.fromkeys(gpm, "gpm"),
            period_by_signal=dict(PERIODS),
            window_by_signal=dict.fromkeys(gpm, INTERVAL_S),
            jitter=JITTER if measured else 0.0,
            rounding=rounding,
            clock="epoch",
            says=says,
        )

    def _lacking(self) -> dict[str, str]:
        lacking = {} if self._view.nvlink else dict.fromkeys(_NVLINK, _NO_FIELD)
        lacking["device.own_latency"] = _NO_LATENCY
        if not self._view.gpm:
            lacking |= dict.fromkeys(SIGNALS, NOT_HERE)
        if not self._view.power:
            lacking |= dict.fromkeys(("device.power", "device.power_average", "device.energy"), _NO_FIELD)
        return lacking


def uuid(index: int) -> str:
    """The simulated GPU's, by its number."""
    return f"GPU-51a71ab0-0000-4000-8000-{index:012d}"
