"""How a GPU that a dcgm-exporter tells of describes itself: what it delivers, how finely, what it cannot and why."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from gaptop_collectors.collector import Json, SourceInfo
from gaptop_collectors.devices.dcgm_fields import ENERGY, FIELDS, GPU_UTIL, GR_ENGINE, Key, Row
from gaptop_collectors.signals import split_key

NAME: Final = "devices.dcgm"
ASSUMED_PERIOD_S: Final = 30.0
"""dcgm-exporter's own default, until the period is known."""
DRIVER_WINDOW_S: Final = 0.2
"""NVML's utilisation window: 0.167-0.2 s wherever it was measured; the exporter does not tell it."""

_DRIVER_WINDOWS: Final = ("device.memory_busy",)
_PROFILE_WINDOWS: Final = ("device.sm_active", "device.tensor_active", "device.dram_active")
_FIELDS_OF: Final[Mapping[str, str]] = {
    split_key(spec.key)[0]: name for name, spec in reversed(list(FIELDS.items())) if spec.key
} | {"device.busy": GR_ENGINE}
_ENABLE: Final = (
    "the exporter prints no value for {field}: add its line to the counters file (-f, --collectors) and restart "
    "dcgm-exporter; a field that is there and stays away is not offered by this GPU"
)
_EMPTY: Final = "the exporter prints {field} without a valid value: {why}"
_NOT_OFFERED: Final = "this GPU, or its driver, does not offer it"
_BLOCKED: Final = (
    "profiling is not available on this GPU, or is blocked (another profiler such as Nsight holds the counters, or "
    "dcgm-exporter lacks SYS_ADMIN)"
)
_PROFILING: Final = " (profiling fields need a data-centre GPU from Volta on, or GeForce from Blackwell on)"
_RATE: Final = (
    "dcgm-exporter gives a mean rate, not a count of bytes; newer ones count in {field}, once its line is in the "
    "counters file (-f, --collectors)"
)
_NEVER: Final = {
    "device.graphics_active": "it is what device.busy shows here, where the exporter gives it",
    "device.power_average": "dcgm-exporter has one power reading, and on some GPUs that is a one-second mean",
    "device.nvlink_rx": "dcgm-exporter gives NVLink traffic as a mean rate, not as a count of bytes",
    "device.nvlink_tx": "dcgm-exporter gives NVLink traffic as a mean rate, not as a count of bytes",
    "device.foreign_processes": "dcgm-exporter tells no process ids, so the mapping of servers to its GPUs is unknown",
}


def busy_field(seen: Set[str], *, mig_parent: bool) -> str:
    """The field that device.busy is taken from, "" where there is none."""
    if GR_ENGINE in seen:
        return GR_ENGINE
    return GPU_UTIL if GPU_UTIL in seen and not mig_parent else ""


def describe(
    base: str,
    key: Key,
    row: Row,
    seen: Set[str],
    period: float | None,
    poll: float,
    *,
    at_most: bool = False,
    mig_parent: bool = False,
    read_at_scrape: bool = False,
) -> SourceInfo:
    """The source as it is now. ``seen``: the fields that have had a value. ``read_at_scrape``: the exporter is known to
    be one that asks DCGM at each scrape; older ones copy DCGM's values on a timer of their own."""
    busy = busy_field(seen, mig_parent=mig_parent)
    signals = {split_key(FIELDS[name].key)[0] for name in seen if FIELDS[name].key}
    signals -= {"device.busy"} if not busy else set()
    if {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"} <= seen:
        signals.add("device.memory_total")
    entity: dict[str, Json] = {
        "uuid": key.label,
        "name": row.name or key.label,
        "kind2": "gpu",
        "index": row.index,
        "pids": None,
    }
    if key.instance:
        entity |= {"parent": key.uuid, "slice": row.profile}
    profiled = busy == GR_ENGINE
    shown = period or ASSUMED_PERIOD_S
    others = [signal for signal in (_DRIVER_WINDOWS if profiled else _PROFILE_WINDOWS) if signal in signals]
    windows = dict.fromkeys(others, DRIVER_WINDOW_S if profiled else shown)
    return SourceInfo(
        source=f"dcgm/{key.label}",
        collector=NAME,
        kind="device",
        entity=entity,
        signals=sorted(signals),
        period=shown,
        unsupported=_unsupported(key, row, signals, mig_parent),
        window=shown if profiled else DRIVER_WINDOW_S,
        window_measured=profiled and period is not None and not at_most,
        error=poll + (0.0 if read_at_scrape else shown),
        refresh="collection",
        window_by_signal=windows,
        rounding="percent" if busy == GPU_UTIL else "",
        says=_says(base, key, row, busy, seen, period, at_most, mig_parent, read_at_scrape),
    )


def _unsupported(key: Key, row: Row, signals: Set[str], mig_parent: bool) -> dict[str, str]:
    why = dict(_NEVER)
    for signal, name in _FIELDS_OF.items():
        if signal in ("device.pcie_rx", "device.pcie_tx"):
            why[signal] = _RATE.format(field=name)
        elif key.instance and not FIELDS[name].of_slice:
            why[signal] = f"it is known for the whole GPU only (source dcgm/{key.uuid})"
        elif name in row.fields:
            reason = _BLOCKED if FIELDS[name].part == "profile" else _NOT_OFFERED
            why[signal] = _EMPTY.format(field=name, why=reason)
        else:
            why[signal] = _ENABLE.format(field=name) + (_PROFILING if FIELDS[name].part == "profile" else "")
    if mig_parent:
        why["device.busy"] = (
            "MIG is on, and the driver gives no utilisation of the whole GPU; its slices have their own, where "
            f"the exporter gives {GR_ENGINE}"
        )
        why["device.memory_busy"] = "MIG is on, and the driver gives no utilisation of the whole GPU"
    return {signal: reason for signal, reason in why.items() if signal not in signals}


def _says(
    base: str,
    key: Key,
    row: Row,
    busy: str,
    seen: Set[str],
    period: float | None,
    at_most: bool,
    mig_parent: bool,
    read_at_scrape: bool,
) -> str:
    text = f"From dcgm-exporter at {base}. "
    if period is None:
        text += (
            "How often its values change is not known yet (it takes some changes; its default is 30 s), so the mean "
            "values of its periods are not shown yet."
            if any(FIELDS[name].part == "profile" for name in seen)
            else "How often its values change is not known yet (it takes some changes; its default is 30 s)."
        )
    else:
        how = "at least every" if at_most else "every"
        text += f"Its values change {how} {period:.2g} s (measured)"
        if busy == GR_ENGINE:
            text += ": a gap shorter than that shows only as a lower mean."
        elif busy:
            text += (
                f": busy is {GPU_UTIL}, the driver's last window before each change (taken as 0.2 s), so most of the "
                "time is not seen, a shorter gap shows not at all or by chance, and valleys cannot be found from it "
                "unless the period is short."
            )
        else:
            text += "."
    if not busy and not mig_parent:
        text += " It tells no utilisation, so this device's valleys cannot be seen."
    if busy != GR_ENGINE and not mig_parent and GR_ENGINE in row.fields:
        text += f" It prints {GR_ENGINE} without a valid value: {_BLOCKED}."
    elif busy != GR_ENGINE and not mig_parent:
        text += (
            f" Add {GR_ENGINE} to its counters file (-f, --collectors), or collect more often (dcgm-exporter -c 1000: "
            "each second)."
        )
    elif period is not None and period > 2:
        text += " To see finer, collect more often (dcgm-exporter -c 1000: each second)."
    if not read_at_scrape:
        text += " An exporter before 4.0 may show values up to one period late."
    if ENERGY not in seen and not key.instance:
        text += f" Without {ENERGY} a collection that changes no value goes unseen."
    return text
