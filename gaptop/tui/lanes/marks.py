"""What happened, as letters: preemptions, throttling, limits, compiling, restarts, our own slow calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.style import Style

from gaptop.timeline.types import ThreadId
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece
from gaptop.tui.events import OURS, told
from gaptop.tui.lanes.lane import BLANK, Drawn
from gaptop.tui.lanes.moved import Moved
from gaptop.tui.scene import Scene
from gaptop.tui.window import settled_until
from gaptop_collectors.signals import split_key


@dataclass(frozen=True, slots=True)
class Mark:
    """A kind of thing that happens."""

    letter: str
    says: str
    style: Style


FAULT: Final = Mark("!", "fault of a driver or device", palette.BAD)
RESTART: Final = Mark("R", "server restarted", palette.BAD)
COMPILE: Final = Mark("J", "compiling", palette.activity_style("compile"))
PREEMPT: Final = Mark("p", "preemption", palette.hue(palette.VERMILLION, bold=True))
THROTTLE: Final = Mark("T", "throttled by the CPU quota", palette.hue(palette.YELLOW, bold=True))
LIMIT: Final = Mark("L", "held by power or heat", palette.hue(palette.GREEN))
OWN: Final = Mark("o", "our own slow call or failure", palette.WAIT)
MARKS: Final = (RESTART, FAULT, COMPILE, PREEMPT, THROTTLE, LIMIT, OWN)
"""In this order: the first of a column is what is drawn."""

_LIMITS: Final = frozenset(
    {"sw_power_cap", "thermal_policy", "board_limit", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"}
)
_MOST: Final = 8
"""Screens of columns that are kept."""
_SOME: Final = 0.05
"""Share of a column: a limit that was active for less is an edge of another one, and so is a compile frame."""


class MarksLane:
    """One row. ``threads`` are those whose compiling counts: the ones that have lanes."""

    key = "marks"
    digit = 9

    def __init__(self, threads: tuple[ThreadId, ...]) -> None:
        self._threads = threads
        self._read: tuple[object, dict[Mark, set[int]]] | None = None
        self._moved = Moved()
        self._compiling: dict[ThreadId, dict[int, bool]] = {}
        """Of columns that are final, whether the thread compiled in them; of one width (seconds)."""
        self._width = 0.0

    def present(self, scene: Scene) -> bool:
        return bool(self._marks(scene))

    def draw(self, scene: Scene, height: int) -> Drawn:
        found, view = self._marks(scene), scene.view
        cells: list[Cell] = [BLANK] * view.columns
        for mark in reversed(MARKS):
            for column in found.get(mark, ()):
                cells[column] = (mark.letter, mark.style)
        rows = [cells, *([BLANK] * view.columns for _ in range(height - 1))]
        supports = scene.rests_on(("sched.preemptions", "host.throttled", "device.limit_seconds"))
        return Drawn("marks", rows, ("",) * height, (self._value(scene, found), *(((),) * (height - 1))), supports)

    def _value(self, scene: Scene, found: dict[Mark, set[int]]) -> tuple[Piece, ...]:
        """What is under the cursor, else the kinds that are in view."""
        if scene.cursor is not None and scene.view.shows(scene.cursor):
            column = scene.view.column_at(scene.cursor) - scene.view.first
            under = [mark for mark in MARKS if column in found.get(mark, ())]
            if not under:
                return ((" none", palette.DIM),)
            return ((f" {under[0].says}", under[0].style),)
        return tuple((f" {mark.letter}", mark.style) for mark in MARKS if mark in found)

    def _marks(self, scene: Scene) -> dict[Mark, set[int]]:
        """Columns by mark; read again only when the view moved or something was said."""
        said = tuple((view.newest, view.watermark) for view in scene.sources.values())
        state = scene.view, min(scene.view.column_at(scene.now), scene.view.right), said, len(scene.timeline.events)
        if self._read is None or self._read[0] != state:
            found: dict[Mark, set[int]] = {}
            for mark, column in self._find(scene):
                found.setdefault(mark, set()).add(column)
            self._read = state, found
        return self._read[1]

    def _find(self, scene: Scene) -> Iterator[tuple[Mark, int]]:
        view, timeline = scene.view, scene.timeline
        for event in told(scene, view.start, view.end):
            if view.shows(event.t):
                mark = RESTART if event.what == "server_restarted" else OWN if event.what in OURS else FAULT
                yield mark, view.column_at(event.t) - view.first
        for one in timeline.ids("sched.preemptions"):
            yield from ((PREEMPT, column) for column in self._moved.columns(scene, one, 0.0))
        for one in timeline.ids("host.throttled"):
            yield from ((THROTTLE, column) for column in self._moved.columns(scene, one, 0.0))
        for one in timeline.ids("device.limit_seconds"):
            if split_key(one.key)[1].get("reason") in _LIMITS:
                yield from ((LIMIT, column) for column in self._moved.columns(scene, one, _SOME))
        for thread in self._threads:
            for column in self._compiled(scene, thread):
                yield COMPILE, column

    def _compiled(self, scene: Scene, thread: ThreadId) -> Iterator[int]:
        view = scene.view
        if view.seconds != self._width:
            self._width, self._compiling = view.seconds, {}
        known = self._compiling.setdefault(thread, {})
        missing = [column for column in range(view.first, view.right + 1) if column not in known]
        fresh: dict[int, bool] = {}
        if missing:
            first, after = missing[0], missing[-1] + 1
            shares = scene.timeline.share_columns(thread, first * self._width, after * self._width, after - first)
            took = shares.seconds[:, shares.activities.index("compile")] > _SOME * self._width
            fresh = dict(enumerate(took.tolist(), first))
            settled = settled_until(scene.sources.get(thread.source))
            known |= {column: any_ for column, any_ in fresh.items() if (column + 1) * self._width <= settled}
            if len(known) > _MOST * view.columns:
                self._compiling[thread] = {}
        for column in range(view.first, view.right + 1):
            if fresh.get(column, known.get(column)):
                yield column - view.first
