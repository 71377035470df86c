"""The parts that one may look at, in one line: everything, and each of several servers or devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.tui.focus import ALL, Focus, Marks
from gaptop.tui.scene import Scene

_CELLS: Final = 14
"""Cells of the line that a name may take, with what stands around it."""


def tabs(scene: Scene, found: Sequence[Focus], shown: Focus | None, marks: Marks, width: int, room: int) -> str:
    """The shown one in brackets, with as many of its neighbours as a line of ``width`` cells usually has, and as fit in
    ``room``; "" where there is nothing to choose. A mark stands behind the name of the part that it is about."""
    if not found:
        return ""
    names = [ALL, *(one.label for one in found)]
    place = names.index(shown.label) if shown is not None and shown.label in names else 0
    told = [scene.clean(f"{name} {marks[name]}" if name in marks else name) for name in names]
    told[place] = f"[{told[place]}]"
    for count in range(max(1, width // _CELLS), 0, -1):
        first = min(max(0, place - count // 2), max(0, len(names) - count))
        some = told[first : first + count]
        more = f" +{len(names) - len(some)}" if len(some) < len(names) else ""
        line = f" {'  '.join(some)}{more} "
        if len(line) <= room:
            break
    return line
