"""Which lanes are on screen, how high, and which the user has folded or asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaptop.tui import layout
from gaptop.tui.lanes.devices import DIGIT, DeviceLane, telling
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.scene import Scene


@dataclass(frozen=True, slots=True)
class Shown:
    """Lanes with their rows. ``folded`` are digits of which no lane is shown, ``partly`` those of which some are not.

    ``left_out`` of the ``devices`` that could have a lane of their own have none.
    """

    lanes: tuple[tuple[Lane, int], ...] = ()
    folded: frozenset[int] = frozenset()
    partly: frozenset[int] = frozenset()
    left_out: int = 0
    devices: int = 0


class Choice:
    """What the digit keys said so far."""

    def __init__(self) -> None:
        self._hidden: set[int] = set()
        self._wanted: set[int] = set()
        self._parted: set[int] = set()
        """Digits that have more lanes than are shown by themselves."""
        self.shown = Shown()
        self._asked: tuple[object, ...] = ()

    def toggle(self, digit: int) -> None:
        """A lane on screen folds; a folded one comes back, even if another has to make room.

        Where some lanes of a digit are left out by themselves, the first press brings all of them, the second folds
        them, the third is back at what was shown at first.
        """
        if digit in self._hidden:
            self._hidden.discard(digit)
            if digit not in self._parted:
                self._wanted.add(digit)
        elif digit in self.shown.folded or (digit in self.shown.partly and digit not in self._wanted):
            self._wanted.add(digit)
        else:
            self._hidden.add(digit)
            self._wanted.discard(digit)

    def share(self, scene: Scene, lanes: Sequence[Lane], rows: int, tall: bool) -> tuple[tuple[Lane, int], ...]:
        """Give ``rows`` to the lanes that have anything to show."""
        present = tuple(lane for lane in lanes if lane.present(scene))
        most = rows if DIGIT in self._wanted else layout.most_devices(rows)
        kept = telling(present, scene, most)
        asked = (present, kept, rows, tall, frozenset(self._hidden), frozenset(self._wanted))
        if asked != self._asked:
            self._asked = asked
            self.shown = self._share(present, kept, rows, tall)
        return self.shown.lanes

    def _share(self, present: Sequence[Lane], kept: frozenset[Lane], rows: int, tall: bool) -> Shown:
        candidates = [
            lane
            for lane in present
            if lane.digit not in self._hidden and (lane in kept or not isinstance(lane, DeviceLane))
        ]
        kinds = [(lane.key, lane.digit) for lane in candidates]
        heights = layout.share(rows, kinds, tall, frozenset(self._wanted))
        shown = tuple((lane, height) for lane, height in zip(candidates, heights, strict=True) if height)
        missing = set(present) - {lane for lane, _ in shown}
        digits = frozenset(lane.digit for lane, _ in shown)
        partly = digits & {lane.digit for lane in missing}
        self._parted |= partly - self._wanted
        single = {lane for lane in present if isinstance(lane, DeviceLane)}
        folded = frozenset(lane.digit for lane in present) - digits
        return Shown(shown, folded, partly, 0 if DIGIT in folded else len(single & missing), len(single))
