"""What is to be known beside a valley's argument: how well it was measured, what else happened, what cannot be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.recording.lines import Event, Source
from gaptop.tui import figures
from gaptop.tui.devices import devices, working
from gaptop.tui.events import beside, pointed_at
from gaptop.tui.scene import Scene
from gaptop.tui.seen import UNKNOWN_MAPPING, blind_below, mapping_unknown
from gaptop.valleys.coverage import UNDERSTOOD, critical_ratio
from gaptop.valleys.model import Plateau, ShallowDip, Valley

_WORDS: Final = {
    "device.busy": "utilisation",
    "device.memory_busy": "memory utilisation",
    "device.graphics_active": "graphics activity",
    "device.sm_active": "SM activity",
    "device.tensor_active": "tensor activity",
    "device.dram_active": "DRAM activity",
    "device.power": "power",
    "device.energy": "energy",
    "tokens.decode": "decode tokens",
    "tokens.prompt": "prompt tokens",
    "step.count": "engine steps",
    "sched.running": "requests running",
    "host.thread_activity": "threads' stacks",
    "host.compilers": "running compilers",
}


def measured(scene: Scene, valley: Valley) -> str:
    """Idle time with its error, the bounds of the longest gap, and which signals agree."""
    parts = []
    if valley.idle_s is not None:
        count = len(valley.devices)
        over = f" added up over {count} devices" if count > 1 else ""
        parts.append(f"{figures.seconds(valley.idle_s)}{_error(scene, valley.idle_error_s)}{over}")
    if valley.longest_gap_s is not None:
        parts.append(f"longest gap {figures.bounds(*valley.longest_gap_s)}")
    parts.append(_agreement(scene, valley.confirmed, valley.agreeing))
    return f" {scene.glyphs.dot} ".join(map(scene.clean, parts))


def besides(scene: Scene) -> tuple[tuple[str, str], ...]:
    """(label, text), the more important first; a text changes no faster than it can be read."""
    dips = [dip for dip in scene.assessment.dips if _in_view(scene, dip.start_s, dip.end_s)]
    plateaus = [flat for flat in scene.assessment.plateaus if _in_view(scene, flat.start_s, flat.end_s)]
    unknown = mapping_unknown(devices(scene.sources), scene.sources)
    pointed, more = pointed_at(scene)
    happened = [] if scene.valley is None else beside(scene, scene.valley)
    happened = [event for event in happened if event not in pointed]
    unnamed = _unnamed(scene)
    if not (dips or plateaus or unknown or pointed or happened or unnamed):
        return ()
    parts = [
        ("event", _pointed(scene, pointed, more)),
        ("meanwhile", _meanwhile(scene, happened)),
        ("dips", _dips(scene, dips)),
        ("plateau", _plateau(plateaus[-1]) if plateaus else ""),
        ("blind", _blind(scene, dips[-1].device if dips else plateaus[-1].device) if dips or plateaus else ""),
        ("rules", unnamed),
        ("mapping", scene.clean(unknown.removeprefix(f"{UNKNOWN_MAPPING}: "))),
    ]
    return tuple((label, f"unknown: {text}" if label == "mapping" else text) for label, text in parts if text)


def _in_view(scene: Scene, start: float, end: float) -> bool:
    return start < scene.view.end and end > scene.view.start


def _unnamed(scene: Scene) -> str:
    """Where rules name little of what the critical threads did in view, stacks prove little either."""
    ratio = critical_ratio(scene.timeline, scene.view.start, scene.view.end)
    if ratio is None or ratio >= UNDERSTOOD:
        return ""
    return (
        f"rules name about {round(ratio, 1):.0%} of what the threads did that the device waits for; the report tells "
        "what they miss, --activities FILE adds rules"
    )


def _error(scene: Scene, error: float | None) -> str:
    return "" if error is None else f" {scene.glyphs.plus_minus}{figures.seconds(error)}"


def _agreement(scene: Scene, confirmed: bool, agreeing: tuple[str, ...]) -> str:
    names = [scene.clean(_WORDS.get(name, name)) for name in agreeing]
    if not confirmed:
        return f"suspected: one signal alone{f' ({names[0]})' if names else ''}"
    *some, last = names[1:] or ["a second signal"]
    return f"confirmed by {', '.join(some)}{' and ' if some else ''}{last}"


def _pointed(scene: Scene, events: Sequence[Event], more: int) -> str:
    """Each with its time; ``more`` of them are in view besides."""
    said = [f"at {scene.clock(event.t)}: {scene.clean(event.says or event.what)}" for event in events]
    return f" {scene.glyphs.dot} ".join([*said, f"{more} more in view (cursor: , .)"] if more else said)


def _meanwhile(scene: Scene, happened: Sequence[Event]) -> str:
    """What happened while the explained valley lasted."""
    said = dict.fromkeys(scene.clean(event.says or event.what) for event in reversed(happened))
    return f" {scene.glyphs.dot} ".join(said)


def _dips(scene: Scene, dips: list[ShallowDip]) -> str:
    if not dips:
        return ""
    last = dips[-1]
    when = f"at {scene.clock(last.start_s, 1)}: {figures.seconds(last.idle_s)}{_error(scene, last.idle_error_s)} idle"
    gap = f"longest gap {figures.bounds(*last.longest_gap_s)}"
    count = "one shallow dip in view" if len(dips) == 1 else f"{len(dips)} shallow dips in view, the last"
    return scene.clean(f"{count} {when}, {gap}, {_agreement(scene, last.confirmed, last.agreeing)}")


def _plateau(flat: Plateau) -> str:
    text = (
        f"busy {figures.ratio(flat.busy_ratio)} for {figures.seconds(flat.end_s - flat.start_s)}: recurring short gaps"
    )
    if flat.idle_per_step_s is None:
        return text
    return f"{text}, {figures.seconds(flat.idle_per_step_s)} idle a step"


def _blind(scene: Scene, key: str) -> str:
    """What the readings of that device cannot show."""
    found = devices(scene.sources)
    one = next((one for one in found if one.key == key and one.busy), None)
    one = one or next((one for one in working(found) if one.busy), None)
    info: Source | None = scene.sources[one.busy].info if one is not None else None
    return "" if info is None else blind_below(info)
