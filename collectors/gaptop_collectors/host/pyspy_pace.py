"""When a process's recorder is followed by the next one, and how fast that one is to be."""

from __future__ import annotations

from typing import Final

from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_recorder import Recorder

SECOND: Final = 1_000_000_000
_EARLY_NS: Final = 3 * SECOND
_HURRY: Final = 1.5
"""A recorder so many times as fast or as slow as is planned by now need not run to the end of its window."""


class Pace:
    """``rate`` in Hz (0: not watched) and ``window_ns`` are the plan's."""

    def __init__(self, learnt: Learnt) -> None:
        self.rate = 0
        self.window_ns = 4 * SECOND
        self._learnt = learnt
        self._early = False
        self._shorten_ns = 0
        self._look: tuple[int, int] | None = None
        self._closer: Recorder | None = None
        self._closer_ns = 0

    def hand_over_early(self) -> None:
        """Deliver soon what is being watched now; rationed, since every hand-over costs 18 ms of CPU."""
        self._early = True

    def look_closer(self, rate: int, window_ns: int) -> None:
        """Begin a recorder of this higher rate at once, for so long; what was seen until now is delivered."""
        self._look = rate, window_ns

    def forget_look(self) -> None:
        """Nothing can be seen at this moment."""
        self._look = None

    def shorten(self, place: int) -> None:
        """The first window, so that several processes do not hand over at one moment."""
        self._shorten_ns = place % 4 * SECOND // 2

    @property
    def usual_rate(self) -> int:
        """Without a closer look: the planned rate, or less where py-spy fell behind."""
        return max(1, round(self.rate / self._learnt.slowed)) if self.rate else 0

    @property
    def next_rate(self) -> int:
        """Of the next recorder."""
        if self._look is None:
            return self.usual_rate
        return max(self.usual_rate, round(self._look[0] / self._learnt.slowed))

    def begun(self, recorder: Recorder) -> None:
        """It was started, at :attr:`next_rate`."""
        self._closer = recorder if self._look is not None else None
        self._closer_ns, self._look = self._look[1] if self._look is not None else 0, None

    def followed(self) -> None:
        """The one after a living recorder was started, or could not be."""
        self._early, self._shorten_ns = False, 0

    def is_closer(self, recorder: Recorder | None) -> bool:
        """Whether it is a closer look."""
        return recorder is not None and recorder is self._closer

    def due(self, current: Recorder) -> int:
        """When the recorder, which is live, is to be followed by the next one."""
        live = current.live_ns or current.started_ns
        if self._look is not None:
            return live
        if current is self._closer:
            return live + self._closer_ns
        full = self.window_ns - min(self._shorten_ns, self.window_ns // 2)
        if self._learnt.falls_behind(current) or self._hurries(current, full / SECOND):
            self._early = True
        return live + (min(_EARLY_NS, full) if self._early else full)

    def _hurries(self, current: Recorder, seconds: float) -> bool:
        """Whether its rate is so far from the planned one that the difference is worth a hand-over."""
        more = abs(current.rate - self.usual_rate) * self._learnt.likely_tick * seconds
        return more > self._learnt.hand_over and not 1 / _HURRY <= current.rate / self.usual_rate <= _HURRY
