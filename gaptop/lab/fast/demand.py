"""How many requests are open at the server, as its connections show it: each has one until it is answered."""

from __future__ import annotations

from collections import deque

from gaptop.lab.core.events import Open


class OpenRequests:
    """Comings and goings in the order of time. A front end that is stopped reads none of what comes meanwhile."""

    def __init__(self) -> None:
        self._changes: deque[Open] = deque()
        self._count = self._total = 0
        self._came: deque[float] = deque()

    def add(self, change: Open) -> None:
        self._changes.append(change)
        self._total += change.change

    @property
    def any(self) -> bool:
        """Whether some request is open at the newest change."""
        return self._total > 0

    def count(self, now: float, stopped_since: float | None) -> tuple[int, int]:
        """Open at ``now``, and those of them that a front end stopped since then has not read."""
        while self._changes and self._changes[0].start <= now:
            start, change = self._changes.popleft()
            self._count += change
            if change > 0:
                self._came.append(start)
        if stopped_since is None:
            self._came.clear()
            return self._count, 0
        while self._came and self._came[0] < stopped_since:
            self._came.popleft()
        return self._count, len(self._came)
