"""The lanes of the devices: one of several as a mean first, then each of them; power; what the SMs did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from gaptop.timeline.types import SeriesId
from gaptop.tui.devices import BUSY as BUSY_SIGNAL
from gaptop.tui.devices import Device, working
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.lanes.series import SeriesLane, Spec
from gaptop.tui.palette import BLUE, GREEN, YELLOW
from gaptop.tui.scene import Scene

DIGIT: Final = 1
BUSY: Final = Spec("busy", DIGIT, "busy", (BUSY_SIGNAL, "device.sm_active"), "%", GREEN, "mean", full=1.0)
SM: Final = Spec("sm", DIGIT, "SM active", ("device.sm_active",), "%", BLUE, "mean", full=1.0)
DRAM: Final = Spec("dram", DIGIT, "DRAM act.", ("device.dram_active",), "%", BLUE, "mean", full=1.0)
TENSOR: Final = Spec("tensor", DIGIT, "tensor", ("device.tensor_active",), "%", BLUE, "mean", full=1.0)
POWER: Final = Spec(
    "power",
    2,
    "power",
    ("device.power", "device.power_average", "device.limit_seconds", "device.limit_reasons", "device.clock_sm"),
    "W",
    YELLOW,
    limit="device.power_limit",
    line=True,
)


class Keep(Protocol):
    """Gives the lane of that key, made where there is none yet."""

    def __call__(self, key: str, make: Callable[[], Lane]) -> Lane: ...


class DeviceLane(SeriesLane):
    """The utilisation of one of several devices. When rows are short, only the telling ones of these are shown."""

    def __init__(self, spec: Spec, ids: Callable[[Scene], tuple[SeriesId, ...]], device: Device) -> None:
        super().__init__(spec, ids, device.label)
        self.device = device


def device_lanes(found: Sequence[Device], says: str, keep: Keep) -> list[Lane]:
    """In the order of the screen. ``says``: why there is no device."""
    if not found:
        spec = replace(BUSY, missing=says or "No device is seen yet.")
        return [keep(f"busy {says}", partial(SeriesLane, spec, _none))]
    main = working(found)
    seen = tuple(one for one in main if one.busy) or main[:1]
    lanes = [_busy(seen, len(found) > 1, keep)]
    lanes += [_over(spec, main, keep) for spec in (SM, DRAM, TENSOR)]
    if len(found) > 1:
        lanes += [_each(one, keep) for one in found if len(seen) > 1 or one is not seen[0]]
    lanes.append(_over(POWER, main, keep, "power sum" if len(main) > 1 else ""))
    if len(found) > 1:
        others = [one for one in found if len(main) > 1 or one is not main[0]]
        lanes += [_power_of(one, keep) for one in others]
    return lanes


def telling(lanes: Sequence[Lane], scene: Scene, most: int) -> frozenset[Lane]:
    """Of the lanes of single devices at most so many: the server's, those with a reading, the valley's, the idlest.

    What a device idled so far is taken in steps of a twentieth, so that lanes do not come and go by small changes.
    """
    own = [lane for lane in lanes if isinstance(lane, DeviceLane)]
    if len(own) <= most:
        return frozenset(own)
    busy = {row.device: row.share_ratio for row in scene.assessment.ledger if row.cause == "busy"}
    hit = scene.valley.devices if scene.valley is not None else ()

    def rank(lane: DeviceLane) -> tuple[bool, bool, bool, int]:
        device = lane.device
        share = busy.get(device.key)
        return not device.ours, not device.busy, device.key not in hit, 20 if share is None else round(share * 20)

    return frozenset(sorted(own, key=rank)[:most])


def _busy(seen: Sequence[Device], several: bool, keep: Keep) -> Lane:
    """The lane that never folds: of one device, or the mean of several."""
    label = "busy" if not several else f"mean of {len(seen)}" if len(seen) > 1 else seen[0].label
    spec = _or_why(BUSY, seen[0])
    sources = tuple(one.busy for one in seen if one.busy)
    return keep(f"busy {sources} {label} {spec.missing}", partial(SeriesLane, spec, _all_of(sources), label))


def _each(one: Device, keep: Keep) -> Lane:
    spec = _or_why(replace(BUSY, key="device" if one.busy else "no device"), one)
    sources = (one.busy,) if one.busy else ()
    return keep(f"device {one}", partial(DeviceLane, spec, _all_of(sources), one))


def _or_why(spec: Spec, one: Device) -> Spec:
    """A device without utilisation says so: its lane is neither empty nor at zero."""
    if one.busy:
        return replace(spec, missing="No reading yet.", absent="no reading")
    return replace(spec, missing=f"N/A: {one.reason}", absent="N/A")


def _over(spec: Spec, main: Sequence[Device], keep: Keep, label: str = "") -> Lane:
    """One lane over all the server's devices that have the signal."""
    sources = tuple(one.sources for one in main)
    return keep(f"{spec.key} {sources} {label}", partial(SeriesLane, spec, _of(spec, sources), label))


def _power_of(one: Device, keep: Keep) -> Lane:
    spec = replace(POWER, key="power each")
    label = f"power {one.label.partition(' ')[0]}"
    return keep(f"power each {one.key} {label}", partial(SeriesLane, spec, _of(spec, (one.sources,)), label))


def _of(spec: Spec, groups: Sequence[Sequence[str]]) -> Callable[[Scene], tuple[SeriesId, ...]]:
    """Of each group of sources (those of one device) the first that has the signal: no device counts twice."""
    signal, wanted = spec.signals[0], {source for group in groups for source in group}

    def ids(scene: Scene) -> tuple[SeriesId, ...]:
        found = scene.timeline.ids(signal)
        if len(found) < 2:
            return tuple(one for one in found if one.source in wanted)
        known: dict[str, list[SeriesId]] = {}
        for one in found:
            known.setdefault(one.source, []).append(one)
        first = (next((known[source] for source in group if source in known), []) for group in groups)
        return tuple(one for each in first for one in each)

    return ids


def _all_of(sources: Sequence[str]) -> Callable[[Scene], tuple[SeriesId, ...]]:
    """The utilisation of every one of these: one that has not told anything yet is missing, not left out."""
    wanted = tuple(SeriesId(source, BUSY_SIGNAL) for source in sources)
    return lambda scene: wanted if any(one in wanted for one in scene.timeline.ids(BUSY_SIGNAL)) else ()


def _none(scene: Scene) -> tuple[SeriesId, ...]:
    return ()
