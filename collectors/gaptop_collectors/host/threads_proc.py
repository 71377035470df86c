"""Run states of the server's threads from /proc: on a core, waiting for one, asleep and on what.

Works for every server, also where py-spy may not attach; stat and schedstat are readable by anybody. States are looked
at twice in each window of 250 ms, and closer while something happens; shares of time are exact (schedstat). Only
the threads that matter keep files open; which those are is seen once a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message
from gaptop_collectors.host.ended import EndedSources
from gaptop_collectors.host.proc_tasks import all_cores_tick, keeps_schedstat
from gaptop_collectors.host.proc_watch import SECOND, WINDOW_NS, ProcessWatch
from gaptop_collectors.target import Processes, ServerProcess

_ROLES: Final = ("engine", "worker", "server", "api")
_PERIOD: Final = WINDOW_NS / SECOND / 2
"""Waking up costs more than looking (0.3 ms against 20 µs a thread), so calm times are looked at no more often."""
_BOOSTED: Final = 0.02
_PASSED_A_SECOND: Final = 128
"""Threads of all processes together whose times are read each second (8 µs each) to see which are hot; of more threads
each is read more rarely."""


class ProcThreads:
    """The collector. Its sources are ``proc/PID``."""

    name = "host.threads_proc"
    deadline = 0.25

    def __init__(self, processes: Processes) -> None:
        self.period = _PERIOD
        self._processes = processes
        self._schedstat = self._ticks = True
        self._watches: dict[tuple[int, int], ProcessWatch] = {}
        self._ended = EndedSources()
        self._window_ns = 0
        self._due: dict[tuple[int, int], int] = {}
        """When each process's threads are looked through again."""
        self._follow_ns = 0
        self._boosted_until = 0

    def open(self) -> Sequence[Message]:
        """Raises :class:`CollectorError` where no process of the server is seen."""
        self._schedstat, self._ticks = keeps_schedstat(), all_cores_tick()
        if not self._wanted():
            raise self._nothing()
        self._follow_ns = self._window_ns = 0
        return ()

    def sample(self) -> Sequence[Message]:
        now = time.monotonic_ns()
        self.period = _BOOSTED if now < self._boosted_until else _PERIOD
        out: list[Message] = []
        for watch in self._watches.values():
            watch.look()
            out += watch.deliver()
        if now >= self._window_ns:
            # On a fixed grid, so that windows do not drift with our own lateness.
            self._window_ns = max(self._window_ns + WINDOW_NS, now + WINDOW_NS // 2)
            for watch in self._watches.values():
                watch.window(time.monotonic_ns())
            out += self._ended.messages(now)
            if now >= self._follow_ns:
                self._follow_ns = now + SECOND
                self._follow(now, out)
            self._rescan(now)
        if not self._watches and not any(isinstance(message, Hole) for message in out):
            raise self._nothing()
        return out

    def boost(self, seconds: float) -> None:
        """Look at the states 50 times a second for a while."""
        self._boosted_until = time.monotonic_ns() + round(seconds * SECOND)

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        self._due.clear()

    def _follow(self, now: int, out: list[Message]) -> None:
        wanted = {(process.pid, process.started): process for process in self._wanted()}
        for key in [key for key, watch in self._watches.items() if key not in wanted or watch.gone]:
            watch = self._watches.pop(key)
            del self._due[key]
            out += watch.deliver()
            watch.close()
            self._ended.add(watch.source)
            out.append(Hole(watch.source, watch.began, now, f"process {watch.process.pid} has ended"))
        for key, process in wanted.items():
            if key not in self._watches:
                try:
                    watch = ProcessWatch(process, schedstat=self._schedstat, ticks=self._ticks, now=now)
                except OSError:
                    continue  # gone already, or hidden: the tree will say so
                self._watches[key], self._due[key] = watch, 0
                self._ended.discard(watch.source)

    def _rescan(self, now: int) -> None:
        """Look through the threads of those processes whose turn it is."""
        every = max(1, math.ceil(sum(watch.count for watch in self._watches.values()) / _PASSED_A_SECOND))
        for key, watch in self._watches.items():
            if now >= self._due[key]:
                first = not self._due[key]
                self._due[key] = now + (WINDOW_NS if first else every * SECOND) - WINDOW_NS // 2
                watch.rescan(now, float(every))

    def _wanted(self) -> list[ServerProcess]:
        return [process for process in self._processes.current() if process.role in _ROLES]

    def _nothing(self) -> CollectorError:
        return CollectorError(
            self._processes.why_empty() or "The server's processes are not seen, so neither are their threads.",
            state="absent",
        )
