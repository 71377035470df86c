"""What our own calls to the NVIDIA driver cost, and how much less often to ask for it. Pure: the caller has the clock.

The driver takes one lock for all its GPUs, so a slow or a frequent caller holds up the server itself, on any of them
(public traces: one monitor held it ten of every fifteen seconds). Hence one budget for the whole session.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

SLOW_S: Final = 0.02
"""A call longer than this may hold the driver's lock against the server itself: noted, and asked less often."""
BUDGET: Final = 0.02
"""Share of the time that all our calls together may take."""
OVER_S: Final = 10.0
MOST: Final = 8


class Change(NamedTuple):
    """The distance of our calls changed: ``stretch`` times their usual one from now on. ``share`` of the time over the
    last seconds (None: too short a time), ``slowest`` call in seconds (0: it was none that made the change)."""

    stretch: int
    more: bool
    share: float | None
    slowest: float


class OwnCost:
    """``stretch`` (1, 2, 4, 8) is what every distance but the rings' is to be multiplied with.

    A slow call, or more than BUDGET over OVER_S seconds, doubles it. It halves again after so long a quiet that even
    the rarest group of calls was asked twice, and only while twice the present cost would be within the budget.
    """

    def __init__(self) -> None:
        self.stretch = 1
        self.seconds = 0.0
        """Time of all calls so far."""
        self._counted = self._judged = 0.0
        self._slowest = 0.0
        self._before: deque[tuple[float, float]] = deque()
        self._quiet_since = float("-inf")

    def start(self) -> None:
        """What was asked so far does not count against the budget: a GPU that has to wake up is slow once."""
        self._slowest, self._judged = 0.0, self.seconds
        self._before.clear()

    def add(self, seconds: float, own: float) -> None:
        """A call took so long; ``own``: without what this thread waited for a core in it."""
        self.seconds += seconds
        self._slowest = max(self._slowest, own)

    def share(self, now: float) -> float | None:
        """Share of the time since OVER_S seconds ago or the last change; None until that is long enough ago."""
        if not self._before or now - self._before[0][0] < OVER_S:
            return None
        since, spent = self._before[0]
        return (self._counted - spent) / (now - since)

    def judge(self, now: float, waited: float = 0.0) -> Change | None:
        """To be asked about four times a second, after a round of calls, in which so much was waited for a core."""
        self._counted += max(0.0, self.seconds - self._judged - waited)
        self._judged = self.seconds
        slowest, self._slowest = self._slowest, 0.0
        while len(self._before) > 1 and now - self._before[1][0] >= OVER_S:
            self._before.popleft()
        share = self.share(now)
        self._before.append((now, self._counted))
        slow, dear = slowest > SLOW_S, share is not None and share > BUDGET
        if slow or dear:
            self._quiet_since = now
            return self._change(now, self.stretch * 2, share, slowest if slow else 0.0) if self.stretch < MOST else None
        quiet = now - self._quiet_since >= OVER_S * self.stretch
        if self.stretch > 1 and quiet and share is not None and share <= BUDGET / 2:
            self._quiet_since = now
            return self._change(now, self.stretch // 2, share, 0.0)
        return None

    def _change(self, now: float, stretch: int, share: float | None, slowest: float) -> Change:
        change = Change(stretch, stretch > self.stretch, share, slowest)
        self.stretch = stretch
        self._before.clear()
        self._before.append((now, self._counted))
        return change


def sentence(change: Change) -> str:
    """For the note: what was measured, and what it means for what people see."""
    often = "as often as usual" if change.stretch == 1 else f"{change.stretch} times less often than usual"
    reads = f"power, clocks and counters are read {often}; every utilisation window of the driver's ring still is"
    if change.slowest:
        why = f"took {change.slowest * 1000:.0f} ms and may have held the driver's lock against the server"
        return f"A call of gaptop to the NVIDIA driver {why}, so {reads}."
    share = f"{(change.share or 0.0) * 100:.1f} %"
    if change.more:
        return f"gaptop's own calls to the NVIDIA driver took {share} of the time (budget {BUDGET:.0%}), so {reads}."
    return f"gaptop's own calls to the NVIDIA driver take only {share} of the time now, so {reads}."
