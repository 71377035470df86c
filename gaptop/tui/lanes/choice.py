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
    """What the digit keys said so far; at first the user's own choice of ``folded`` digits and their ``order``."""

    def __init__(self, folded: frozenset[int] = frozenset(), order: Sequence[int] = ()) -> None:
        self._rank = {digit: place for place, digit in enumerate(order)}
        self._hidden: set[int] = set(folded)
        self._wanted: set[int] = set()
        self._parted: set[int] = set()
        """Digits that have more lanes than are shown by themselves."""
        self.shown = Shown()
        self._asked: tuple[object, ...] = ()
        self._enlarged: int | None = None

    def enlarge(self, digit: int) -> None:
        """Give the lanes of that digit most of the rows; the second time, as usual."""
        self._enlarged = None if self._enlarged == digit else digit
        self._hidden.discard(digit)
        if self._enlarged is not None:
            self._wanted.add(digit)

    def usual(self) -> bool:
        """No lane is enlarged any more; false where none was."""
        was, self._enlarged = self._enlarged, None
        return was is not None

    def lift(self, digit: int) -> None:
        """Put the lanes of that digit on top of all others."""
        others = sorted((place, other) for other, place in self._rank.items() if other != digit)
        known = [other for _, other in others] or [other for other in range(1, 10) if other != digit]
        self._rank = {each: place for place, each in enumerate((digit, *known))}

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
        if self._rank:
            present = tuple(sorted(present, key=lambda lane: self._rank.get(lane.digit, len(self._rank))))
        most = rows if DIGIT in self._wanted else layout.most_devices(rows)
        kept = telling(present, scene, most)
        asked = (present, kept, rows, tall, frozenset(self._hidden), frozenset(self._wanted), self._enlarged)
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
        heights = layout.share(rows, kinds, tall, frozenset(self._wanted), self._enlarged)
        shown = tuple((lane, height) for lane, height in zip(candidates, heights, strict=True) if height)
        missing = set(present) - {lane for lane, _ in shown}
        digits = frozenset(lane.digit for lane, _ in shown)
        partly = digits & {lane.digit for lane in missing}
        self._parted |= partly - self._wanted
        single = {lane for lane in present if isinstance(lane, DeviceLane)}
        folded = frozenset(lane.digit for lane in present) - digits
        return Shown(shown, folded, partly, 0 if DIGIT in folded else len(single & missing), len(single))
