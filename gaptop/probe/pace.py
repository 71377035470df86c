"""How often to try: back-off after failures, and longer periods for a collector that costs too much. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_OPENING: Final = (2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_WORKED: Final = (0.5, 1.0, 2.0, 5.0)
"""Soon again for what worked until now: a server that restarts should be seen within seconds of its return."""
SHARE: Final = 0.02
"""Of a core, for what one collector reads."""
MOST_STRETCH: Final = 16
_WINDOW: Final = 2.0


class Backoff:
    """Seconds to wait after each failure in a row."""

    def __init__(self, *, worked: bool) -> None:
        self._steps = _WORKED if worked else _OPENING
        self.failures = 0

    def failed(self) -> float:
        self.failures += 1
        return self._steps[min(self.failures, len(self._steps)) - 1]

    def succeeded(self) -> None:
        self.failures = 0


class Budget:
    """CPU that a collector's own thread takes, as a share of a core, held under ``share()`` by stretching its period,
    up to ``most_stretch`` times. What it may take can change with what it has to read: the mean over the time that is
    judged counts."""

    def __init__(self, share: Callable[[], float] = lambda: SHARE, most_stretch: int = MOST_STRETCH) -> None:
        self.share = share()
        """What it might take over the time that was judged last."""
        self.cost: float | None = None
        """Share of a core over the last two seconds or so; None until measured."""
        self.stretch = 1
        self._share_now = share
        self._most_stretch = most_stretch
        self._over: dict[int, tuple[float, float]] = {}
        self._since: float | None = None
        self._before = self._spent = self._allowed = 0.0

    @property
    def over(self) -> tuple[float, float]:
        """Period (seconds) and cost when it last was over the budget; only to be asked while stretched."""
        return self._over[self.stretch // 2]

    def spend(self, cpu: float, now: float, period: float) -> None:
        """Book the CPU seconds of one sample that ended at ``now`` (seconds of any steady clock); ``period`` is the
        collector's own."""
        if self._since is None:
            self._since = self._before = now
            return
        self._spent += cpu
        self._allowed += self._share_now() * (now - self._before)
        self._before = now
        elapsed = now - self._since
        if elapsed < _WINDOW:
            return
        cost = self._spent / elapsed
        self.cost = cost if self.cost is None else (self.cost + cost) / 2
        self.share = self._allowed / elapsed
        self._since, self._spent, self._allowed = now, 0.0, 0.0
        if cost > self.share and self.stretch < self._most_stretch:
            self._over[self.stretch] = period * self.stretch, cost
            self.stretch *= 2
        elif self.stretch > 1 and 2 * cost < 0.8 * self.share:
            self.stretch //= 2
