"""How a terminal's rows are shared out: pure arithmetic, so that it can be tested without a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SMALLEST: Final = (60, 16)
"""Columns and rows below which nothing fits."""

_ALWAYS: Final = {"busy": 3, "queue": 2, "tokens": 1, "valleys": 1}
"""Lanes that never fold by themselves, and the rows they need."""
_FIRST: Final = ("valleys", "busy")
_ADMIT: Final = (
    *("device", "no device"),
    *("engine", "engine states", "server", "server states", "threads", "kv", "marks"),
    *("front end", "front end states", "worker", "worker states", "power", "sm", "prompt"),
)
"""Who comes next when there is room."""
_ADMIT_TALL: Final = (*_ADMIT, "dram", "tensor")
_MOST: Final = {
    **{"busy": 6, "power": 3, "queue": 4, "tokens": 4, "prompt": 3, "kv": 3},
    **{"device": 2, "sm": 2, "dram": 2, "tensor": 2, "power each": 1},
    **{"engine states": 2, "server states": 2, "worker states": 2, "front end states": 1},
}
_STATES: Final = ("engine states", "server states", "worker states")
"""Threads of which run states are known have them in rows below their activity."""
_GROW: Final = (
    *("busy", "tokens", "queue", *_STATES, "device", "kv", "sm", "power", "prompt", "dram", "tensor"),
    "front end states",
)
_LEAST: Final = 6
"""Rows of lanes that stay beside a high detail: the valleys, the device, and what is asked of the server."""
TALL: Final = 50
"""Rows of a terminal from which lanes may be twice as high."""


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of each part. The picture holds the lanes and the axis."""

    detail: int
    lanes: int
    ledger: int


@dataclass(frozen=True, slots=True)
class Widths:
    """Columns of the picture's parts."""

    label: int
    scale: int
    cells: int
    value: int

    @property
    def gutter(self) -> int:
        return self.label + self.scale + 1


def too_small(width: int, height: int) -> bool:
    return width < SMALLEST[0] or height < SMALLEST[1]


def split(height: int, notes: int = 0, wanted: int = 0) -> Split:
    """Header 2, rule, lanes, axis, rule, detail with the sentence on top, (rule, ledger, notes under it), keys.

    The ledger has a line for what is in view and one for all. A detail that is ``wanted`` to be higher takes what a
    few rows of lanes leave over.
    """
    ledger = 0 if height < 20 else 1 if height < 30 else 3 + notes
    detail = 5 if height < 20 else 7 if height < 28 else 9 if height < 36 else 11 if height < TALL else 12
    detail = max(detail, min(wanted, height - 6 - ledger - _LEAST))
    return Split(detail, max(1, height - 2 - 1 - 1 - 1 - 1 - detail - ledger), ledger)


def widths(width: int) -> Widths:
    """Wider margins where there is room for longer units."""
    label, scale, value = (10, 4, 12) if width < 100 else (10, 5, 15)
    return Widths(label, scale, width - label - scale - 2 - value, value)


def most_devices(rows: int) -> int:
    """How many of several devices have a lane of their own, so that the server's and the host's lanes stay."""
    return max(2, (rows - 8) * 2 // 3)


def share(
    rows: int,
    lanes: Sequence[tuple[str, int]],
    tall: bool,
    wanted: frozenset[int] = frozenset(),
    enlarged: int | None = None,
) -> list[int]:
    """Rows for each lane, 0 for a folded one. ``lanes`` are (kind, digit); ``wanted`` are digits the user asked for.
    The lanes of an ``enlarged`` digit take all that is left once the valleys and the device have a row.

    First the valleys and the device, then what the user asked for, then what else always stays, then by use while there
    is room; then lanes grow in turn.
    """
    heights = [0] * len(lanes)
    kinds = [kind for kind, _ in lanes]
    left = _admit(heights, [index for kind in _FIRST for index, own in enumerate(kinds) if own == kind], rows)
    asked = [index for index, (_, digit) in enumerate(lanes) if digit in wanted]
    left = _admit(heights, sorted(asked, key=lambda index: "device" not in kinds[index]), left)
    left = _admit(heights, [index for index, kind in enumerate(kinds) if kind in _ALWAYS], left)
    if enlarged is not None:
        mine = [kinds[index] for index, (_, digit) in enumerate(lanes) if digit == enlarged and heights[index]]
        if mine:
            _grow(heights, kinds, left, dict.fromkeys(mine, rows), mine)
            return heights
    left = _grow(heights, kinds, left, _ALWAYS, ("queue", "busy"))
    order = _ADMIT_TALL if tall else _ADMIT
    left = _admit(heights, [index for kind in order for index, own in enumerate(kinds) if own == kind], left)
    _grow(heights, kinds, left, {kind: rows * 2 if tall else rows for kind, rows in _MOST.items()}, _GROW)
    return heights


def _admit(heights: list[int], order: Sequence[int], left: int) -> int:
    for index in order:
        if left > 0 and heights[index] == 0:
            heights[index] = 1
            left -= 1
    return left


def _grow(heights: list[int], kinds: Sequence[str], left: int, most: Mapping[str, int], order: Sequence[str]) -> int:
    grown = True
    while left > 0 and grown:
        grown = False
        for wanted in order:
            for index, kind in enumerate(kinds):
                if kind == wanted and 0 < heights[index] < most[kind] and left > 0:
                    heights[index] += 1
                    left -= 1
                    grown = True
    return left
