"""Everything that is known of how each device is seen: for the help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gaptop.recording.lines import Source
from gaptop.tui import figures
from gaptop.tui.devices import Device, devices
from gaptop.tui.lost import lost
from gaptop.tui.scene import Scene
from gaptop.tui.seen import mapping_unknown, missing, monitor_cost, resolution

_CLOCKS: Final = {
    "epoch": "stamps of the wall clock",
    "boot": "stamps of the boot clock",
    "monotonic": "stamps of the monotonic clock",
    "anchored": "stamps of no known clock, anchored to their arrival",
}
_ROUNDED: Final = {
    "nearest": "rounded to whole per cents",
    "down": "rounded down to whole per cents",
    "percent": "whole per cents",
}


def device_facts(scene: Scene) -> list[tuple[str, str]]:
    """(device, what is known) of every device, a line each; the label stands in the first one only."""
    facts: list[tuple[str, str]] = []
    gone = lost(scene)
    for one in devices(scene.sources):
        lines = [line for source in one.sources for line in _source(scene.sources[source].info)]
        lines = [*dict.fromkeys([*(gone[source] for source in one.sources if source in gone), *lines])]
        lines += _besides(scene, one)
        facts += [(one.label if index == 0 else "", line) for index, line in enumerate(lines)]
    return facts


def _source(info: Source) -> list[str]:
    entity: Mapping[str, object] = info.entity
    lines = [", ".join(str(part) for part in (entity.get("name"), entity.get("uuid"), info.id) if part)]
    how = [resolution([info], way=True)]
    if info.jitter:
        how.append(f"jitter {figures.seconds(info.jitter)}")
    how += [word for word in (_CLOCKS.get(info.clock), _ROUNDED.get(info.rounding)) if word]
    if info.error:
        how.append(f"on our clock within {figures.seconds(info.error)}")
    lines.append(", ".join(how))
    if info.says:
        lines.append(info.says)
    return [*lines, *(f"N/A {line}" for line in missing(info))]


def _besides(scene: Scene, one: Device) -> list[str]:
    unknown = mapping_unknown((one,), scene.sources)
    cost = monitor_cost(scene.timeline, (one,))
    lines = [unknown] if unknown else []
    return lines if cost is None else [*lines, f"monitor cost {cost * 1e3:.1f} ms/s: our own calls to its driver"]
