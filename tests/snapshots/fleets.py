"""The canned minute with other devices: several, many, MIG slices, one with GPM, one that tells no utilisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, Final

from gaptop.recording.lines import Batch, Event, Health, Hole, Line, Source, Watermark
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop.valleys.model import Assessment, ShallowDip
from tests.screenshots.canned import DEVICE, LENGTH, CannedFeed, classify, episode, stream
from tests.screenshots.judged import CannedAnalysis

NO_MIG: Final = "MIG is on, and NVML gives no utilisation for the whole GPU: its slices have their own lanes"
NO_PIDS: Final = "the driver shows process ids of the host, and gaptop runs in a container"
_W: Final = 0.2
_AGREE: Final = ("device.busy", "device.power", "tokens.decode")


def gpu(index: int, name: str = "NVIDIA H100 80GB HBM3", **changes: Any) -> Source:
    """One GPU of the watched server, read from the driver's ring."""
    uuid = f"GPU-{index}"
    entity: dict[str, Any] = {"uuid": uuid, "name": name, "kind2": "gpu", "index": index, "pids": [210]}
    entity |= changes.pop("entity", {})
    signals = ("device.busy", "device.power", "device.power_limit", "device.own_calls")
    fields: dict[str, Any] = {"signals": signals, "window": _W, "window_measured": True, "jitter": 0.004} | changes
    return Source(0.0, f"nvml/{entity['uuid']}", "devices.nvml", "device", entity, period=0.25, clock="boot", **fields)


def mig_slice(number: int, profile: str, parent: str = "GPU-0") -> Source:
    """A slice whose utilisation comes from GPM."""
    return gpu(
        0,
        signals=("device.busy", "device.sm_active"),
        refresh="gpm",
        entity={"uuid": f"MIG-{number}", "index": number, "parent": parent, "slice": profile},
    )


def mig_parent() -> Source:
    return gpu(0, signals=("device.power",), unsupported={"device.busy": NO_MIG})


FLEETS: Final[Mapping[str, Sequence[Source]]] = {
    "two": (gpu(0, "NVIDIA GeForce RTX 3090"), gpu(1, "NVIDIA GeForce RTX 3090")),
    "eight": tuple(gpu(index) for index in range(8)),
    "mig": (mig_parent(), mig_slice(0, "1g.10gb"), mig_slice(1, "1g.10gb"), mig_slice(2, "3g.40gb")),
    "gpm": (
        gpu(
            0,
            signals=("device.busy", "device.power", "device.sm_active", "device.dram_active", "device.tensor_active"),
            window_by_signal=dict.fromkeys(("device.sm_active", "device.dram_active", "device.tensor_active"), 0.2),
        ),
    ),
    "unsupported": (gpu(0, "NVIDIA A100-SXM4-40GB", signals=("device.power",), unsupported={"device.busy": NO_MIG}),),
    "unmapped": (gpu(0, "NVIDIA GB10", entity={"pids": None}, unsupported={"device.foreign_processes": NO_PIDS}),),
}


HAPPENED: Final = (
    Event(34.0, "our_slow_call", "Our own call to the driver of GPU 0 took 63 ms.", "nvml/GPU-0"),
    Event(57.0, "xid", "GPU 0 reports Xid 79.", "nvml/GPU-0"),
)


def fleet(name: str, length: float = LENGTH, events: Sequence[Event] = ()) -> Iterator[Line]:
    """The lines of the canned minute with these devices instead of its own."""
    sources = FLEETS[name]
    began = False
    for line in stream(length):
        if isinstance(line, Source) and line.id == DEVICE:
            yield from sources
            began = True
        elif isinstance(line, Health) and line.src == DEVICE:
            yield from (Health(line.t, one.id, one.collector, "ok", line.t, 0.25, 0.01) for one in sources)
        elif isinstance(line, Batch) and line.src == DEVICE:
            for number, one in enumerate(sources):
                yield from _readings(one, number, line)
            yield from (event for event in events if line.t[0] - _W < event.t <= line.t[0])
        elif isinstance(line, Hole) and line.src == DEVICE:
            yield Hole(sources[0].id, line.start, line.end, line.reason)
        elif isinstance(line, Watermark) and line.src == DEVICE:
            yield from (Watermark(one.id, line.t) for one in sources)
        else:
            yield line
    assert began


class FleetAnalysis(CannedAnalysis):
    """The canned analysis with what NVML's windows tell of a valley, and two shallow dips."""

    def apply(self, line: Line) -> Assessment | None:
        said = super().apply(line)
        return None if said is None else _measured(said)

    def finish(self) -> Assessment:
        return _measured(super().finish())


def fleet_app(name: str, ascii_only: bool = False) -> GaptopApp:
    """The screen on the canned minute with these devices, without a clock."""
    options = ScreenOptions(ascii=ascii_only, fps=0.01, version="0.1.0", log_path="~/gaptop.log", timezone=UTC)
    feed = CannedFeed(list(fleet(name, 60.0, HAPPENED)))
    return GaptopApp(feed, classify, options, FleetAnalysis, lambda: 0.0)


def _measured(said: Assessment) -> Assessment:
    valleys = tuple(
        replace(
            valley,
            devices=("GPU-0",),
            longest_gap_s=(0.18, 0.42),
            confirmed=index % 2 == 0,
            agreeing=_AGREE if index % 2 == 0 else _AGREE[:1],
        )
        for index, valley in enumerate(said.valleys)
    )
    dips = tuple(
        ShallowDip(
            "GPU-0", at, at + _W, _W, _W, 0.093, 0.001, (0.06, 0.093), at > 45.0, ("device.busy", "device.power")
        )
        for at in (29.0, 50.0)
        if at < said.now
    )
    return replace(said, valleys=valleys, dips=dips)


def _readings(source: Source, number: int, line: Batch) -> Iterator[Line]:
    """The device's readings at the times of the canned one. The second device has a stall of its own, and one zero."""
    [t] = line.t
    busy = line.values["device.busy"][0] or 0.0
    if number == 1 and (26.0 < t < 27.5 or 53.0 < t < 53.3):
        busy = 0.0
    elif number and episode(t) == "steady":
        busy = round(max(0.0, busy - 0.03 * number), 2)
    told = {
        "device.busy": busy,
        "device.sm_active": round(busy * 0.61, 2),
        "device.dram_active": round(busy * 0.74, 2),
        "device.tensor_active": round(busy * 0.22, 2),
        "device.power": line.values["device.power"][0],
        "device.power_limit": 700.0,
        "device.own_calls": round(t * 0.0012, 6),
    }
    yield Batch(source.id, [t], {name: [value] for name, value in told.items() if name in source.signals})
