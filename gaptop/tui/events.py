"""What happened to the devices or by our own doing: marks on the valley strip, sentences beside a valley."""

from __future__ import annotations

from typing import Final

from gaptop.recording.lines import Event
from gaptop.tui.scene import Scene
from gaptop.valleys.model import Valley

OURS: Final = frozenset({"our_slow_call", "nvml_backoff"})
_TOLD: Final = OURS | {"xid", "gpu_lost"}
_DISORDER: Final = 60.0
"""Seconds by which an event may come late."""


def told(scene: Scene, start: float, end: float) -> list[Event]:
    """The events of [start, end] that a person must see, newest first."""
    found = []
    for event in reversed(scene.timeline.events):
        if event.t < start - _DISORDER:
            break
        if event.what in _TOLD and start <= event.t <= end:
            found.append(event)
    return found


def beside(scene: Scene, valley: Valley) -> list[Event]:
    """Those that happened while the valley lasted, as far as its edges are known."""
    end = scene.now if valley.end_s is None else valley.end_s
    return told(scene, valley.start_s - valley.start_error_s, end + valley.end_error_s)
