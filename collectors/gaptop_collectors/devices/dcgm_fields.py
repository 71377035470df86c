"""What a dcgm-exporter's samples mean: field names, units, blanks, and which GPU or MIG slice a row is about.

Read from the exporter's and DCGM's sources (3.1 to 4.6): ratios are 0..1, power W, energy mJ since the driver was
loaded, clocks MHz, frame buffer MiB, violations ns (older counter files say us, but the number is NVML's own, in ns).
The exporter prints no timestamps.

Not given out, because a reading would not be what gaptop's signal means: ``DCGM_FI_PROF_PCIE_*_BYTES`` and
``DCGM_FI_PROF_NVLINK_*_BYTES`` (mean rates over a collection period, labelled counter in some releases; they only tell
that a collection happened), ``DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`` (a rate labelled counter) and
``DCGM_FI_DEV_PCIE_*_THROUGHPUT`` (not filled).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from gaptop_collectors.engines.address import printable
from gaptop_collectors.engines.exposition import Sample
from gaptop_collectors.signals import series_key

Part = Literal["driver", "profile"]
"""DCGM reads the driver's fields and the profiling fields on clocks of their own, at least before Hopper."""

GR_ENGINE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
GPU_UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
XID: Final = "DCGM_FI_DEV_XID_ERRORS"
_FB_FREE: Final = "DCGM_FI_DEV_FB_FREE"
_FB_RESERVED: Final = "DCGM_FI_DEV_FB_RESERVED"
_MIB: Final = float(1 << 20)


class Field(NamedTuple):
    """The series it becomes ("": none by itself), the factor to that unit, the largest reading that can be true."""

    key: str
    factor: float
    most: float = float("inf")
    part: Part = "driver"
    of_slice: bool = False
    """Under a MIG slice's labels it tells of that slice; any other field tells of the whole GPU there."""


FIELDS: Final[Mapping[str, Field]] = {
    GPU_UTIL: Field("device.busy", 0.01, 100),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Field("device.memory_busy", 0.01, 100),
    GR_ENGINE: Field("device.busy", 1.0, 1, "profile", of_slice=True),
    "DCGM_FI_PROF_SM_ACTIVE": Field("device.sm_active", 1.0, 1, "profile", of_slice=True),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Field("device.tensor_active", 1.0, 1, "profile", of_slice=True),
    "DCGM_FI_PROF_DRAM_ACTIVE": Field("device.dram_active", 1.0, 1, "profile", of_slice=True),
    "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL": Field("device.pcie_rx", 1.0, part="profile"),
    "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL": Field("device.pcie_tx", 1.0, part="profile"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": Field("", 1.0, part="profile"),
    "DCGM_FI_PROF_PCIE_TX_BYTES": Field("", 1.0, part="profile"),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Field("", 1.0, part="profile"),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Field("", 1.0, part="profile"),
    "DCGM_FI_DEV_POWER_USAGE": Field("device.power", 1.0),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": Field("device.power", 1.0),  # after the other: where both are, it is taken
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": Field("device.power_limit", 1.0),
    ENERGY: Field("device.energy", 1e-3),
    "DCGM_FI_DEV_SM_CLOCK": Field("device.clock_sm", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": Field("device.clock_memory", 1e6),
    "DCGM_FI_DEV_GPU_TEMP": Field("device.temperature", 1.0),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": Field("device.limit_reasons", 1.0),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": Field("device.limit_reasons", 1.0),
    "DCGM_FI_DEV_POWER_VIOLATION": Field(series_key("device.limit_seconds", reason="sw_power_cap"), 1e-9),
    "DCGM_FI_DEV_THERMAL_VIOLATION": Field(series_key("device.limit_seconds", reason="thermal_policy"), 1e-9),
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": Field(series_key("device.limit_seconds", reason="sync_boost"), 1e-9),
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": Field(series_key("device.limit_seconds", reason="board_limit"), 1e-9),
    "DCGM_FI_DEV_LOW_UTIL_VIOLATION": Field(series_key("device.limit_seconds", reason="low_utilization"), 1e-9),
    "DCGM_FI_DEV_RELIABILITY_VIOLATION": Field(series_key("device.limit_seconds", reason="reliability"), 1e-9),
    "DCGM_FI_DEV_FB_TOTAL": Field("device.memory_total", _MIB, of_slice=True),
    "DCGM_FI_DEV_FB_USED": Field("device.memory_used", _MIB, of_slice=True),
    _FB_FREE: Field("", _MIB, of_slice=True),
    _FB_RESERVED: Field("", _MIB, of_slice=True),
    XID: Field("", 1.0),
}

_RENAMED: Final = {
    "DCGM_FI_DEV_GPU_UTIL_RATIO": GPU_UTIL,  # still per cents, whatever its name
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_XID_ERROR": XID,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": GR_ENGINE,
    "DCGM_FI_PROF_SM_UTIL_RATIO": "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": "DCGM_FI_PROF_DRAM_ACTIVE",
}
"""DCGM 4.6 names some fields anew; a counter file may use either name, and the exporter prints what stands there."""

NAMES: Final = frozenset((*FIELDS, *_RENAMED))

_BLANKS: Final = (
    (float(0x7FFFFFF0), float(0x7FFFFFFF)),  # 32-bit integers: blank, not found, not supported, no permission
    (float(1 << 47), float((1 << 47) + 15)),  # floating point
    (float(0x7FFFFFFFFFFFFFF0), float("inf")),  # 64-bit integers
)
_POD: Final = ("pod", "pod_name")
_ROUNDED_UP: Final = 1.02
"""A ratio of two counters that were not read at the very same moment may come out a little over 1."""


class Key(NamedTuple):
    """A GPU (``instance`` is "") or a MIG GPU instance on it."""

    uuid: str
    instance: str

    @property
    def label(self) -> str:
        return f"{self.uuid}/gi{self.instance}" if self.instance else self.uuid


@dataclass(slots=True)
class Row:
    """What one body says of one GPU or slice: fields by name, as printed; None is a blank or no number."""

    name: str = ""
    index: int | None = None
    profile: str = ""
    fields: dict[str, float | None] = field(default_factory=dict)

    def part(self, part: Part) -> dict[str, float | None]:
        """The fields of one part, without what changes at other times (Xid)."""
        return {name: value for name, value in self.fields.items() if FIELDS[name].part == part and name != XID}


def rows(samples: Iterable[Sample]) -> dict[Key, Row]:
    """The rows of one body. A row without a GPU's UUID (switches, links, CPUs) is left out."""
    found: dict[Key, Row] = {}
    shared: dict[tuple[Key, str], bool] = {}
    for sample in samples:
        labels = sample.labels
        uuid = labels.get("UUID") or labels.get("uuid") or ""
        name = _RENAMED.get(sample.name, sample.name)
        if not uuid or name not in FIELDS:
            continue
        instance = labels.get("GPU_I_ID", "")
        of_slice = FIELDS[name].of_slice
        slice_row = _row(found, Key(printable(uuid), printable(instance, 20)), labels) if instance else None
        row = slice_row if slice_row is not None and of_slice else _row(found, Key(printable(uuid), ""), labels)
        key = (Key(uuid, instance if of_slice else ""), name)
        in_pod = any(labels.get(label) for label in _POD)
        if key not in shared or (shared[key] and not in_pod):
            # A GPU that pods share has a row of its own first and then one for each pod, with the pod's share.
            row.fields[name] = clean(name, sample.value)
            shared[key] = in_pod
        elif shared[key] and row.fields[name] != clean(name, sample.value) and not (instance and not of_slice):
            row.fields[name] = None  # only pods' shares: the device's own value is not there
    cut = {key_.uuid for key_ in found if key_.instance}
    for key_, row in found.items():
        # NVML has no utilisation under MIG; what is printed there (0, of a busy GPU) is no measurement.
        if not key_.instance and key_.uuid in cut:
            row.fields.pop(GPU_UTIL, None)
            row.fields.pop("DCGM_FI_DEV_MEM_COPY_UTIL", None)
    return found


def _row(found: dict[Key, Row], key: Key, labels: Mapping[str, str]) -> Row:
    row = found.get(key)
    if row is None:
        index = labels.get("gpu", "")
        row = found[key] = Row(
            printable(labels.get("modelName", "")),
            int(index) if index.isascii() and index.isdigit() and len(index) < 6 else None,
            printable(labels.get("GPU_I_PROFILE", ""), 40) if key.instance else "",
        )
    return row


def clean(name: str, value: float | None) -> float | None:
    """The value as printed, or None where it stands for "no value" or cannot be one."""
    if value is None or value < 0 or any(low <= value <= high for low, high in _BLANKS):
        return None
    most = FIELDS[name].most
    if value > most:
        return most if most == 1 and value <= _ROUNDED_UP else None
    return value


def readings(row: Row, part: Part, busy: str) -> dict[str, float | None]:
    """The series of one part of a row. ``busy``: the field that device.busy is taken from."""
    values: dict[str, float | None] = {}
    for name, spec in FIELDS.items():
        if name not in row.fields or spec.part != part or not spec.key:
            continue
        if spec.key == "device.busy" and name != busy:
            continue
        value = row.fields[name]
        if value is not None or spec.key not in values:
            values[spec.key] = None if value is None else value * spec.factor
    if part == "driver" and "device.memory_total" not in values:
        sizes = [row.fields.get(name) for name in ("DCGM_FI_DEV_FB_USED", _FB_FREE, _FB_RESERVED)]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            values["device.memory_total"] = sum(known) * _MIB
    return values
