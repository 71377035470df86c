"""How one whole GPU is described on the stream: what it offers, what it lacks and why, and how to read it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop_collectors.collector import Json, Rounding, SourceInfo
from gaptop_collectors.devices import nvml_says
from gaptop_collectors.devices.nvml_calls import NAME
from gaptop_collectors.devices.nvml_fields import FIELDS, LATENCY, Fields
from gaptop_collectors.devices.nvml_gauges import PERIODS, Gauges
from gaptop_collectors.devices.nvml_gpm import Gpm
from gaptop_collectors.devices.nvml_gpm_request import BUSY, SIGNALS
from gaptop_collectors.devices.nvml_links import RX, TX
from gaptop_collectors.devices.nvml_mapping import mapping
from gaptop_collectors.devices.nvml_mig import MigSlices
from gaptop_collectors.devices.nvml_ring import LAG_S
from gaptop_collectors.devices.nvml_slice import NO_GPM
from gaptop_collectors.devices.nvml_utilization import Utilization
from gaptop_collectors.signals import split_key

FIELDS_S: Final = 0.25
WINDOWS: Final = ("device.busy", "device.memory_busy")
OWN: Final = ("device.own_calls", LATENCY)
OFFERED: Final = tuple(
    dict.fromkeys((*WINDOWS, *SIGNALS, *(split_key(key)[0] for key, _ in FIELDS.values()), RX, TX, *PERIODS, *OWN))
)
_POLLED: Final = dict.fromkeys((signal for signal in OFFERED if signal not in (*WINDOWS, *SIGNALS)), "poll")
LIMITS: Final = tuple(key for key, _ in FIELDS.values() if split_key(key)[0] == "device.limit_seconds")


@dataclass(frozen=True, slots=True)
class Parts:
    """What reads one GPU; made anew when it is another GPU than before (MIG was switched)."""

    utilization: Utilization
    fields: Fields
    gauges: Gauges
    gpm: Gpm

    @property
    def gpm_is_busy(self) -> bool:
        """GPM's graphics activity is the only utilisation there is, so it is what device.busy is read from."""
        return self.utilization.mode == "unsupported" and self.gpm.works and BUSY not in self.gpm.unsupported


def source_info(
    source: str, uuid: str, name: str, index: int, parts: Parts, slices: MigSlices, rounding: Rounding, says: str
) -> SourceInfo:
    """``rounding`` of the driver's own utilisation. ``says``: its sentences, see :func:`says`."""
    seen, lacking = parts.utilization, unsupported(parts, slices)
    gpm = [signal for signal in SIGNALS if signal not in lacking]
    pids = parts.gauges.occupants.pids
    entity: dict[str, Json] = {
        "uuid": uuid,
        "name": name,
        "kind2": "gpu",
        "index": index,
        "pids": None if pids is None else list(pids),
    }
    polled, from_gpm = seen.mode == "polled", parts.gpm_is_busy
    clock_error = seen.clock.error_s if seen.clock else LAG_S
    return SourceInfo(
        source=source,
        collector=NAME,
        kind="device",
        entity=entity,
        signals=[signal for signal in OFFERED if signal not in lacking],
        period=FIELDS_S * parts.gauges.stretch,
        unsupported=lacking,
        window=parts.gpm.window_s if from_gpm else seen.window_s,
        window_measured=from_gpm or seen.measured is not None,
        lag=LAG_S,
        error=seen.polled_error_s if polled else clock_error,
        refresh="gpm" if from_gpm else "polled" if polled else "window",
        refresh_by_signal=_POLLED | dict.fromkeys(gpm, "gpm"),
        period_by_signal=parts.gauges.periods,
        window_by_signal=dict.fromkeys(gpm, parts.gpm.window_s),
        jitter=round(seen.measured.jitter, 4) if seen.measured and not from_gpm else 0.0,
        rounding="" if seen.mode == "unsupported" else rounding,
        clock=seen.clock.domain if seen.clock and seen.mode == "ring" else "",
        says=says,
    )


def unsupported(parts: Parts, slices: MigSlices) -> dict[str, str]:
    """Signals that cannot be had, and why."""
    seen = parts.utilization
    gone = {**parts.fields.unsupported, **parts.gauges.unsupported, **parts.gpm.unsupported}
    missing = [gone.pop(key) for key in LIMITS if key in gone]
    if len(missing) == len(LIMITS):
        gone["device.limit_seconds"] = missing[0]
    if slices.on:
        why = "MIG is on: each of its slices has its own, from GPM, in a lane of its own"
        gone |= dict.fromkeys((*WINDOWS, *SIGNALS), why if slices.gpm or not slices.count else NO_GPM)
    elif parts.gpm_is_busy:
        gone |= {BUSY: "device.busy is read from it here", "device.memory_busy": seen.rates_unsupported}
    elif seen.mode == "unsupported":
        gone |= dict.fromkeys(WINDOWS, seen.rates_unsupported)
    elif seen.mode == "ring" and seen.memory_unsupported:
        gone["device.memory_busy"] = seen.memory_unsupported
    if parts.gauges.occupants.why:
        gone.setdefault("device.foreign_processes", parts.gauges.occupants.why)
    return gone


def says(parts: Parts, slices: MigSlices, rounding: Rounding) -> str:
    """How to read a GPU that answers."""
    seen, gpm = parts.utilization, parts.gpm
    how = nvml_says.resolution(seen.window_s, seen.measured, seen.window.by == "kept")
    if slices.on:
        few = "no slice is there" if not slices.count else f"its {slices.count} slices have lanes of their own"
        text = f"MIG is on and {few}; this lane has what belongs to the whole GPU: power, clocks, memory."
    elif parts.gpm_is_busy:
        text = f"Utilisation from GPM, means over {gpm.window_s * 1000:.0f} ms (measured): NVML gives no other here."
    elif seen.mode == "unsupported":
        why = seen.rates_unsupported
        text = f"This GPU tells no utilisation ({why}), so its valleys cannot be seen; what else it tells is shown."
    elif seen.mode == "polled":
        text = nvml_says.from_polls(how, seen.ring_unsupported or "the driver's ring stands still", rounding)
    else:
        domain = seen.clock.domain if seen.clock else ""
        text = nvml_says.from_ring(how, domain, rounding, seen.window.changes, seen.window_s)
    if gpm.works and not parts.gpm_is_busy:
        text += f" GPM shows SM, tensor and memory activity over {gpm.window_s * 1000:.0f} ms."
    if gpm.trouble:
        text += f" {gpm.trouble}; asked again every few seconds."
    if gpm.dropped:
        text += " GPM gave values outside 0..100 %, which were dropped."
    if parts.fields.power_is_legacy:
        text += " Power is GetPowerUsage, which may be a one-second mean on this card."
    return text + mapping(parts.gauges)
