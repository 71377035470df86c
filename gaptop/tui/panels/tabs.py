"""The parts that one may look at, in one line: everything, and each of several servers or devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.tui.focus import ALL, Focus
from gaptop.tui.scene import Scene

_CELLS: Final = 14
"""Cells of the line that a name may take, with what stands around it."""


def tabs(scene: Scene, found: Sequence[Focus], shown: Focus | None, width: int) -> str:
    """The shown one in brackets, with as many of its neighbours as fit; "" where there is nothing to choose."""
    if not found:
        return ""
    names = [ALL, *(one.label for one in found)]
    place = names.index(shown.label) if shown is not None and shown.label in names else 0
    room = max(1, width // _CELLS)
    first = min(max(0, place - room // 2), max(0, len(names) - room))
    told = [scene.clean(name) for name in names[first : first + room]]
    told[place - first] = f"[{told[place - first]}]"
    more = f" +{len(names) - len(told)}" if len(told) < len(names) else ""
    return f" {'  '.join(told)}{more} "
