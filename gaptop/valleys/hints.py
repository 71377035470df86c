"""The hints beside the sentence: what is missing and how to get it, and readings that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.causes.rule import COLD
from gaptop.valleys.detect import ACTIVE
from gaptop.valleys.scope import DeviceRef, Scope, device_label, tells_busy

LOOKED_BACK: Final = 10.0
"""Seconds that a contradiction must last."""

BUSY: Final = 0.9


def hints(timeline: Timeline, scopes: tuple[Scope, ...]) -> tuple[str, ...]:
    """What is missing, a device without a duty cycle, one that reads busy although nothing runs, one that reads idle
    although tokens come."""
    found = [health.says for _, health in sorted(timeline.health.items()) if health.state not in ("ok", "starting")]
    found += _without_busy(timeline, scopes)
    if timeline.now >= LOOKED_BACK:
        for scope in scopes:
            found += [*_phantoms(timeline, scope), _unmapped(timeline, scope)]
    return tuple(dict.fromkeys(text for text in found if text))


def _without_busy(timeline: Timeline, scopes: Sequence[Scope]) -> list[str]:
    """Devices that nothing tells the duty cycle of, and why; a GPU in slices that are measured is told by them."""
    told = {source for scope in scopes for device in scope.devices for source in device.sources}
    infos = [view.info for _, view in sorted(timeline.sources.items()) if view.info.kind == "device"]
    parents = {str(info.entity.get("parent")) for info in infos if info.id in told}
    found = []
    for info in infos:
        why = info.unsupported.get("device.busy", "")
        if info.id not in told and not tells_busy(info) and why and device_label(info) not in parents:
            found.append(f"{device_label(info)}: utilisation N/A, so no valley of it can be seen: {why}")
    return found


def _phantoms(timeline: Timeline, scope: Scope) -> list[str]:
    start, now = timeline.now - LOOKED_BACK, timeline.now
    if reading.mean(timeline, "sched.running", scope.metrics, start, now) != 0.0:
        return []
    return [_phantom(timeline, device) for device in scope.devices]


def _phantom(timeline: Timeline, device: DeviceRef) -> str:
    start, now = timeline.now - LOOKED_BACK, timeline.now
    busy = reading.mean(timeline, "device.busy", (device.source,), start, now)
    if busy is None or busy < BUSY:
        return ""
    power = reading.mean(timeline, "device.power", (device.source,), start, now)
    most = reading.highest(timeline, "device.power", (device.source,), 0.0, now)
    watts = "" if power is None else f" at {power:.0f} W"
    text = f"{device.label} reads {busy:.0%} busy{watts} although no request runs: phantom busy"
    if power is not None and most is not None and power < COLD * most:
        text += f" (idle power: it has drawn {most:.0f} W)"
    return text


def _unmapped(timeline: Timeline, scope: Scope) -> str:
    """Tokens come, and all devices that are taken for the server's read idle."""
    start, now = timeline.now - LOOKED_BACK, timeline.now
    for device in scope.devices:
        busy = reading.mean(timeline, "device.busy", (device.source,), start, now)
        if busy is None or busy > ACTIVE:
            return ""
    rate = reading.rate(timeline, "tokens.decode", scope.metrics, start, now) if scope.devices else None
    if not rate or rate < 1.0:
        return ""
    names = ", ".join(device.label for device in scope.devices)
    reads = "reads" if len(scope.devices) == 1 else "read"
    return (
        f"{names} {reads} idle although {rate:.4g} tokens a second come from the server: it works on another device"
        " (the mapping of server to device is wrong), or answers from a buffer"
    )
