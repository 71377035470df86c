"""W of one GPU: assumed, known from an earlier run, learnt from polled changes, or measured from the ring. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from gaptop_collectors.devices.nvml_polling import CloseLook
from gaptop_collectors.devices.nvml_ring import ASSUMED_WINDOW_S, ENOUGH, Entry, Period, period, spacing

HISTORY: Final = 72
AGAIN_NS: Final = 60_000_000_000
IDLE_S: Final = 5.0
"""Zeros for so long are idleness, after which the period is measured again: a ring may slow down in it."""
MOVED_S: Final = 0.0015
"""A new estimate that differs by less changes nothing."""

By = Literal["assumed", "kept", "changes", "ring"]


class Window:
    """``seconds`` is W; ``measured`` is None while it is assumed; ``by`` tells where it is from.

    The ring is trusted before all else; where there is one, what it told on an earlier run comes before what polling
    tells now, for a polled value may be a cached copy that changes more rarely than the windows end.
    """

    def __init__(self, kept: Period | None) -> None:
        self.seconds = ASSUMED_WINDOW_S if kept is None else kept.seconds
        self.measured = kept
        self.by: By = "assumed" if kept is None else "kept"
        self.spacing = 0.0
        """Distance of the ring's entries as they come now, in seconds; longer than W while an idle ring is slow."""
        self.look = CloseLook()
        self._history: deque[Entry] = deque(maxlen=HISTORY)
        self._due_ns = 0
        self._zeros = 0
        self._awake = ENOUGH

    @property
    def changes(self) -> Period | None:
        """How often the polled value was seen to change on this run."""
        return self.look.period

    def entries(self, new: Sequence[Entry], now_ns: int) -> None:
        """New entries of the ring, cleaned and ascending."""
        woken = False
        for entry in new:
            woken |= self._follow(entry)
        history = list(self._history)
        self.spacing = spacing(history)
        if self.by == "ring" and now_ns < self._due_ns and not woken:
            return
        found = period(history)
        if found is None:
            return
        self._due_ns = now_ns + AGAIN_NS
        self._take(found, "ring")

    def polled(self, now_ns: int, reading: tuple[int, int], ring: bool) -> None:
        """One poll's reading; ``ring``: this driver has a ring, though it may stand still now."""
        found = self.look.read(now_ns, reading)
        if found and (self.by in ("assumed", "changes") or (self.by == "kept" and not ring)):
            self._take(found, "changes")

    def _follow(self, entry: Entry) -> bool:
        """Whether with this entry enough have come since the GPU was idle."""
        if entry.percent == 0:
            self._zeros += 1
        else:
            if self._zeros * self.seconds >= IDLE_S and self.by == "ring":
                self._history.clear()
                self._awake = 0
            self._zeros = 0
            self._awake += 1
        self._history.append(entry)
        return self._awake == ENOUGH and entry.percent > 0

    def _take(self, found: Period, by: By) -> None:
        known = self.measured
        moved = known is None or max(abs(found.seconds - self.seconds), abs(found.jitter - known.jitter)) > MOVED_S
        if moved or self.by != by:
            self.by, self.measured = by, found
            self.seconds = round(found.seconds, 3)
