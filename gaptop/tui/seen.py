"""How finely the devices are seen, whose they are, and what asking them costs: in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.tui import figures
from gaptop.tui.devices import BUSY, Device

UNKNOWN_MAPPING: Final = "mapping unknown"
_LATELY: Final = 5.0
"""Seconds over which our own calls are counted."""
_MAPPED: Final = ("devices.nvml", "devices.dcgm")
"""Collectors whose devices any process of the host may use."""
_SPARSE: Final = 2.0
"""Windows from one reading to the next beyond which most of the time is unseen."""
_WAYS: Final = {"window": "ring", "polled": "polled", "gpm": "GPM"}


def window_of(info: Source) -> float | None:
    """Seconds that one reading of its utilisation covers."""
    return info.window_by_signal.get(BUSY, info.window)


def way_of(info: Source) -> str:
    """How its utilisation is read: ring, polled, GPM or dcgm; "" where there is only one way."""
    if info.collector == "devices.dcgm":
        return "dcgm"
    if info.collector != "devices.nvml":
        return ""
    return _WAYS.get(info.refresh_by_signal.get(BUSY, info.refresh), "")


def resolution(infos: Sequence[Source], *, short: bool = False, way: bool = False) -> str:
    """The shortest gap that shows as one: the longest window of these devices, and whether all were measured."""
    told = [(window, info) for info in infos if BUSY in info.signals and (window := window_of(info)) is not None]
    if not told:
        read = [info.period for info in infos if BUSY in info.signals]
        return f"polled every {figures.seconds(max(read))}" if read else "utilisation N/A"
    window, worst = max(told, key=lambda item: item[0])
    if _sparse(worst, window):
        return f"{figures.seconds(window)} of every {figures.seconds(worst.period)} seen"
    measured = sum(info.window_measured for _, info in told)
    words = [
        "measured" if measured == len(told) else "assumed" if not measured else f"{measured} of {len(told)} measured"
    ]
    ways = sorted({each for _, info in told if (each := way_of(info))})
    if way and len(ways) == 1:
        words.append(ways[0])
    return f"{'W' if short else 'resolution'} {figures.seconds(window)} ({', '.join(words)})"


def blind_below(info: Source) -> str:
    """What these readings cannot show."""
    maker = {"devices.nvml": "NVML", "devices.dcgm": "dcgm-exporter"}.get(info.collector, "This device's counter")
    window = window_of(info)
    if window is not None and _sparse(info, window):
        seen = f"{figures.seconds(window)} of every {figures.seconds(info.period)}"
        return f"{maker} shows {seen}: what lies between is unseen."
    length = "its period" if window is None else figures.seconds(window)
    return f"{maker} cannot see gaps shorter than {length} one by one; a kernel trace can."


def _sparse(info: Source, window: float) -> bool:
    """Whether most of the time is not seen: an exporter passes on one of many windows, where a ring gives them all."""
    return info.collector == "devices.dcgm" and info.period > _SPARSE * window


def missing(info: Source) -> list[str]:
    """What the device cannot tell: ``nvlink_rx, nvlink_tx: why``, signals of one reason together."""
    reasons: dict[str, list[str]] = {}
    for signal, reason in info.unsupported.items():
        reasons.setdefault(reason, []).append(signal.removeprefix("device."))
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def mapping_unknown(found: Iterable[Device], sources: Mapping[str, SourceView]) -> str:
    """Why it is not known which of these devices the watched server uses; "" where it is, or where none is watched."""
    if not any(view.info.kind == "server" for view in sources.values()):
        return ""
    for one in found:
        infos = [sources[source].info for source in one.sources if source in sources]
        told = any(info.entity.get("pids") is not None for info in infos)
        if told or not any(info.collector in _MAPPED for info in infos):
            continue
        why = infos[0].unsupported.get("device.foreign_processes") or infos[0].says
        why = why.removeprefix(f"{UNKNOWN_MAPPING}: ") or "its driver tells no process ids here"
        return f"{UNKNOWN_MAPPING}: {why}"
    return ""


def monitor_cost(timeline: Timeline, found: Iterable[Device]) -> float | None:
    """Seconds a second that our own calls to these devices' drivers took lately; None where that is not told."""
    end = timeline.now
    wanted = {source for device in found for source in device.sources}
    known = [one for one in timeline.ids("device.own_calls") if one.source in wanted]
    taken = [(timeline.increase(one, end - _LATELY, end), timeline.coverage(one, end - _LATELY, end)) for one in known]
    rates = [seconds / (share * _LATELY) for seconds, share in taken if seconds is not None and share > 0]
    return sum(rates) if rates else None
