"""Run states of the server's threads from /proc: on a core, waiting for one, asleep and on what.

Works for every server, also where py-spy may not attach; stat and schedstat are readable by anybody. States are looked
at twice in each window of 250 ms, and closer while something happens; shares of time are exact (schedstat). Only
the threads that matter keep files open; which those are is seen once a second, of many threads more rarely.

All of it together stays inside 1 % of a core by what it is measured to cost: how many threads are read in a second, how
many are watched closely, and how often they are looked at while something happens follow from that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message
from gaptop_collectors.host.ended import EndedSources
from gaptop_collectors.host.proc_pass import parts
from gaptop_collectors.host.proc_tasks import all_cores_tick, keeps_schedstat
from gaptop_collectors.host.proc_watch import MOST_WATCHED, SECOND, WINDOW_NS, ProcessWatch
from gaptop_collectors.target import Processes, ServerProcess

_ROLES: Final = ("engine", "worker", "server", "api")
_PERIOD: Final = WINDOW_NS / SECOND / 2
"""Waking up costs more than looking (0.3 ms against 20 µs a thread), so calm times are looked at no more often."""
_BOOSTED: Final = 0.02
_FOR_PASSES: Final = 0.002
"""Share of a core for reading the times of all threads, to see which are hot."""
_FOR_LOOKS: Final = 0.006
"""And for all the rest: waking up, looking at the hot ones, putting windows together."""
_THREAD: Final = 8e-6
"""CPU seconds to read one thread's times, until it is measured."""
_AT_ONCE: Final = 512
"""Threads read in one go while it is not known which are hot."""
_DOUBT: Final = 50
_TRUST: Final = 1000
"""Readings that the first guess counts, and what was measured before, against new ones."""
_NEW: Final = 0.1
"""Weight of the newest turn."""


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
        self._thread, self._seen = _THREAD, _DOUBT
        self._turn = 0.0
        """CPU seconds of a turn without its passes, wake-up included."""
        self._before: float | None = None
        self._passed = 0.0

    def open(self) -> Sequence[Message]:
        """Raises :class:`CollectorError` where no process of the server is seen."""
        self._schedstat, self._ticks = keeps_schedstat(), all_cores_tick()
        if not self._wanted():
            raise self._nothing()
        self._follow_ns = self._window_ns = 0
        return ()

    def sample(self) -> Sequence[Message]:
        now = time.monotonic_ns()
        self._measure()
        base = _BOOSTED if now < self._boosted_until else _PERIOD
        self.period = min(_PERIOD, max(base, self._turn / _FOR_LOOKS))
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

    def _measure(self) -> None:
        """What the last turn has cost, from its wake-up to this one's."""
        spent = time.thread_time()
        if self._before is not None:
            turn = max(0.0, spent - self._before - self._passed)
            self._turn = turn if not self._turn else self._turn + _NEW * (turn - self._turn)
        self._before, self._passed = spent, 0.0

    def _rescan(self, now: int) -> None:
        """Look through some threads of those processes whose turn it is."""
        count = sum(watch.count for watch in self._watches.values())
        every = max(1, math.ceil(count * self._thread / _FOR_PASSES))
        begun, read = time.thread_time(), 0
        for key, watch in self._watches.items():
            if now < self._due[key]:
                continue
            most, wait = parts(watch.count, every) if watch.known else (_AT_ONCE, WINDOW_NS / SECOND)
            # On the grid of the windows, not before it.
            self._due[key] = now + round(wait * SECOND) - WINDOW_NS // 8
            read += watch.rescan(now, float(every), most)
            watch.most = self._room(watch)
        self._passed = time.thread_time() - begun
        if read:
            self._thread = (self._seen * self._thread + self._passed) / (self._seen + read)
            self._seen = min(_TRUST, self._seen + read)

    def _room(self, watch: ProcessWatch) -> int:
        """Threads of it that may be watched closely: one more, or one less, by what all of them cost."""
        share = self._turn / _PERIOD
        if share > _FOR_LOOKS:
            return max(1, watch.watched - 1)
        return min(MOST_WATCHED, watch.most + 1) if share < 0.8 * _FOR_LOOKS else watch.most

    def _wanted(self) -> list[ServerProcess]:
        return [process for process in self._processes.current() if process.role in _ROLES]

    def _nothing(self) -> CollectorError:
        return CollectorError(
            self._processes.why_empty() or "The server's processes are not seen, so neither are their threads.",
            state="absent",
        )
