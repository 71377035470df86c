"""What happened to devices and server or by our own doing: marks on the valley strip, sentences below it."""

from __future__ import annotations

from typing import Final

from gaptop.recording.lines import Event
from gaptop.tui.scene import Scene
from gaptop.valleys.model import Valley

PROBE_DIED: Final = "probe_restarted"
OURS: Final = frozenset({"our_slow_call", "nvml_backoff", "dcgm_left_out", PROBE_DIED})
MILD: Final = OURS | {"gpu_back", "mig_changed"}
"""What is no fault of a device."""
_TOLD: Final = MILD | {"xid", "gpu_lost", "same_readings", "server_restarted"}
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


def pointed_at(scene: Scene) -> tuple[list[Event], int]:
    """The events to tell by themselves, and how many more are in view.

    Those under the cursor; else, while no valley is selected, the newest in view: the newest fault first, which what
    came after it by our own doing must not hide.
    """
    view = scene.view
    shown = [event for event in told(scene, view.start, view.end) if view.shows(event.t)]
    shown.sort(key=lambda event: event.t, reverse=True)
    if scene.cursor is not None:
        column = view.column_at(scene.cursor)
        if under := [event for event in shown if view.column_at(event.t) == column]:
            return under, 0
    if scene.chosen or not shown:
        return [], 0
    first = next((event for event in shown if event.what not in MILD), shown[0])
    kept = [first] if first is shown[0] else [first, shown[0]]
    return kept, len(shown) - len(kept)
