"""What all threads of one process want of the cores, read in passes: many threads a part at a time."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from gaptop_collectors.host.proc_tasks import GONE, Tasks

_HOT: Final = 0.01
"""Share of a core above which a thread is watched closely …"""
_WAKING: Final = 0.003
_STARVED: Final = 0.2
"""… or, for one that runs at all, the share of time that it waits to: on a loaded host every thread waits a little."""


def is_hot(ran: float, waited: float) -> bool:
    """By shares of the time on a core and waiting for one."""
    return ran > _HOT or (ran > _WAKING and waited > _STARVED)


class Passes:
    """The times of each thread are compared with those of the pass before. ``now`` are monotonic ns."""

    def __init__(self, tasks: Tasks, *, schedstat: bool, now: int) -> None:
        self.count = 1
        """Threads of the process when the pass began."""
        self.done = 0
        """Whole passes."""
        self.took = 0
        """Nanoseconds from the end of one pass to that of the next, for the last one."""
        self._tasks = tasks
        self._schedstat = schedstat
        self._left: list[int] = []
        self._read: dict[int, tuple[int, int, int]] = {}
        """By thread: when it was read last, and its nanoseconds on a core and waiting for one."""
        self._wanted: dict[int, float] = {}
        self._missed: set[int] = set()
        """Threads that were listed but could not be read so far."""
        self._listed = self._before = self._ended = now

    @property
    def living(self) -> Collection[int]:
        """The threads that the pass has met so far, or that were there at the last."""
        return self._read.keys()

    @property
    def over(self) -> bool:
        """Whether the last call of :meth:`advance` has ended a pass."""
        return not self._left

    def advance(self, now: int, most: int | None, watched: Collection[int]) -> tuple[int, list[tuple[float, int]]]:
        """Read up to so many threads (None: all that are left), those that were not known first. How many were read,
        and the hot ones that are not ``watched`` with the share of a core that they want. Raises one of GONE
        once the process has gone, another OSError where its threads cannot be listed just now.
        """
        if not self._left:
            self._list(now)
        hot = []
        read = 0
        while self._left and (most is None or read < most):
            tid = self._left.pop()
            read += 1
            try:
                on_core, waited = self._tasks.times(tid, schedstat=self._schedstat)
            except GONE:
                self._forget(tid)
                continue
            except (OSError, ValueError):
                # It lives: what it spends until it can be read again is told over all of that time.
                if tid not in self._read:
                    self._missed.add(tid)
                continue
            # One that is new since the last pass began has spent all that it has spent since then.
            new = self.done and tid not in self._missed
            since, ran_before, waited_before = self._read.get(
                tid, (self._before, 0, 0) if new else (now, on_core, waited)
            )
            self._missed.discard(tid)
            self._read[tid] = now, on_core, waited
            elapsed = max(1, now - since)
            ran, queued = max(0, on_core - ran_before) / elapsed, max(0, waited - waited_before) / elapsed
            self._wanted[tid] = ran + queued
            if tid not in watched and is_hot(ran, queued):
                hot.append((ran + queued, tid))
        if not self._left:
            self.took, self._ended = now - self._ended, now
            self.done += 1
        return read, hot

    def wanted(self, but: Collection[int]) -> float:
        """Cores that all threads but these want, by their last two readings each."""
        return sum(share for tid, share in self._wanted.items() if tid not in but)

    def _list(self, now: int) -> None:
        tids = self._tasks.tids()
        self.count = len(tids)
        for tid in (self._read.keys() | self._missed) - set(tids):
            self._forget(tid)
        self._left = sorted(tids, key=lambda tid: tid not in self._read)  # taken from the end
        self._before, self._listed = self._listed, now

    def _forget(self, tid: int) -> None:
        self._read.pop(tid, None)
        self._wanted.pop(tid, None)
        self._missed.discard(tid)


def parts(count: int, every: int) -> tuple[int, float]:
    """How many threads to read at a time, and seconds between two times, so that a pass of ``count`` threads takes
    ``every`` seconds: all at once each second, else in parts, four times a second at most."""
    if every <= 1:
        return max(1, count), 1.0
    most = math.ceil(count / min(count, 4 * every))
    return most, every / math.ceil(count / most)
