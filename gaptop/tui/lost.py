"""Devices that do not answer any more: what that is and what to do, whole or in short."""

from __future__ import annotations

import re
from typing import Final

from gaptop.recording.lines import Health
from gaptop.tui.devices import devices
from gaptop.tui.scene import Scene

_FAILING: Final = ("failing", "refused", "absent")
_CHANGES: Final = ("gpu_lost", "gpu_back")
_ASIDE: Final = re.compile(r" ?\([^()]*\)")
_MEANING: Final = re.compile(r", so [^:;]*(?=[:;])")


def lost(scene: Scene) -> dict[str, str]:
    """By source of a device that delivered and does not now, the whole sentence."""
    timeline = scene.timeline
    newest = {event.src: event for event in timeline.events if event.src and event.what in _CHANGES}
    found = {}
    for one in devices(scene.sources):
        for source in one.sources:
            health: Health | None = timeline.health.get(source)
            event = newest.get(source)
            if health is not None and health.state in _FAILING and health.says:
                found[source] = health.says
            elif event is not None and event.what == "gpu_lost":
                says = scene.sources[source].info.says
                # Where the description was told anew, it goes on where the event ends: with the remedy.
                found[source] = says if says.startswith(event.says.removesuffix(".")) else event.says
    return found


def alert(scene: Scene, room: int) -> str:
    """What stands on the screen of it in about so many cells, "" where every device answers."""
    sentences = list(dict.fromkeys(scene.clean(says) for says in lost(scene).values()))
    if not sentences:
        return ""
    first = sentences[0]
    for spare in (_MEANING, _ASIDE):
        first = spare.sub("", first) if len(first) > room else first
    return first if len(sentences) == 1 else f"(+{len(sentences) - 1} more, see ?) {first}"
