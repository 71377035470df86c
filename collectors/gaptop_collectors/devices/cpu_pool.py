"""The threads of one process that runs the model: which of them compute, and what each did in a window.

The main thread does (llama-server decodes there, and so does vLLM's engine or worker). Another thread is admitted once
it has wanted a core (on it or waiting for it) for at least half of some 0.2 s, the main thread for a quarter of them (a
worker may have the larger share, and the main thread sleeps until it is done), and has got a quarter of the main
thread's time on one: on a crowded machine a thread with a millisecond of I/O to do waits long for it. It is let go when
it ran for less than a tenth of the main thread's last second on a core. That admits OpenMP workers and keeps out HTTP
pools, tokenisers and I/O threads, which look the same by name.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.devices.cpu_settings import Waiting
from gaptop_collectors.devices.cpu_spin import QUIET, STEADY, Judged, Main, Part, Spin
from gaptop_collectors.devices.cpu_threads import PROC, MainThread, ThreadClock, Times, counts_in_ticks, threads_of
from gaptop_collectors.target import ServerProcess

MOST_COMPUTE: Final = 128
MOST_CANDIDATES: Final = 32
"""Threads watched of one process: each costs an open file and about 10 us a look. Further candidates take turns."""
_ADMIT_SHARE: Final = 0.5
_MAIN_SHARE: Final = 0.25
_ALONG_SHARE: Final = 0.25
_KEEP_SHARE: Final = 0.1
_KEEP_NS: Final = 1_000_000_000
_ELSEWHERE_NS: Final = 2_000_000_000
_KERNEL_SHARE: Final = 0.25
"""A vLLM worker that waits for its engine in sched_yield spends 25 to 55 % of 0.2 s in the kernel; one that computes 0
to 15 %, or more with page faults."""
_FAULT_NS: Final = 1_000_000
"""The most that a page fault takes in the kernel (a huge page made zero: 0.1 ms and more)."""


class _Thread:
    """A thread: its clock, what it had at the last reading, and what it wanted and ran since the last looks at who
    computes (``kept_ns``: since the last look at whom to let go)."""

    def __init__(self, clock: ThreadClock) -> None:
        self.clock = clock
        try:
            self._last: Times = self.clock.read()
        except (OSError, ValueError):
            self.clock.close()
            raise
        self.wanted_ns = self.ran_ns = self.kept_ns = 0

    def advance(self) -> Part:
        """What it did since the last call. Raises OSError when the thread is gone."""
        now = self.clock.read()
        ran, waited = now.on_core_ns - self._last.on_core_ns, now.waiting_ns - self._last.waiting_ns
        self._last = now
        self.wanted_ns += ran + waited
        self.ran_ns += ran
        self.kept_ns += ran
        return Part(ran, waited)


@dataclass(frozen=True, slots=True)
class Reading:
    """A pool's window: the main thread's part, the workers' parts by tid, and how many workers ended within it (their
    last parts are not known)."""

    main: Main
    workers: Mapping[int, Part]
    lost: int


class Pool:
    """See the module's text. Raises OSError or ValueError when the process is gone, PermissionError where /proc hides
    its threads, CollectorError where no file can be opened any more."""

    def __init__(self, process: ServerProcess, processes: int = 1, proc: Path = PROC) -> None:
        self.process = process
        self._proc = proc
        self._most = (max(1, MOST_COMPUTE // processes), max(1, MOST_CANDIDATES // processes))
        self.coarse = counts_in_ticks(process.pid, proc)
        self._main_thread = MainThread(process.pid, proc)
        self.waiting = Waiting(process.pid, proc)
        self.spin = Spin()
        self.workers: dict[int, _Thread] = {}
        self._candidates: dict[int, _Thread] = {}
        self._others: list[int] = []
        self._turn = 0
        self._main_ns = self._elsewhere_ns = 0
        try:
            if self._main_thread.started != process.started:
                raise ProcessLookupError
            self._standing = self._looked = self._main_thread.read()
            self._main = self._open(process.pid)
        except BaseException:
            self._main_thread.close()
            raise

    @property
    def tids(self) -> list[int]:
        return [self.process.pid, *self.workers]

    @property
    def full(self) -> bool:
        """More threads may compute than are watched."""
        return len(self.workers) >= self._most[0]

    @property
    def elsewhere(self) -> bool:
        """Another thread has run for longer while the main thread slept than that ever did, and none is admitted."""
        return not self.workers and self._elsewhere_ns > max(self._main_ns, _ELSEWHERE_NS)

    def scan(self) -> None:
        """New threads and gone ones."""
        self._main_thread.read()  # not another process of the same pid
        alive = threads_of(self.process.pid, self._proc)
        for tid in self.workers.keys() - alive:
            self.workers.pop(tid).clock.close()
        self._others = sorted(alive - self.workers.keys() - {self.process.pid})
        if not self._candidates or len(self._others) <= self._most[1]:
            self._take_turns()

    def read(self) -> Reading:
        part = self._main.advance()
        before, self._standing = self._standing, self._main_thread.read()
        now = self._standing
        parts, lost = {}, 0
        for tid, thread in list(self.workers.items()):
            try:
                parts[tid] = thread.advance()
            except (OSError, ValueError):
                self.workers.pop(tid).clock.close()
                lost += 1
        main = Main(part, now.state == "R", self.waiting.sleep(before.waits_at, now.waits_at))
        return Reading(main, parts, lost)

    def judge(self, elapsed_ns: int, reading: Reading, following: Reading | None) -> Judged:
        if self.coarse:  # without the waits the main thread's wish is not known
            return Judged(reading.main.part.ran_ns + sum(part.ran_ns for part in reading.workers.values()))
        return self.spin.judge(elapsed_ns, reading.main, following.main.part if following else None, reading.workers)

    def look(self, span_ns: int) -> int:
        """Who computes, from what was wanted since the last look. Returns what the main thread ran then, if it may have
        been waiting in sched_yield."""
        enough = _ADMIT_SHARE * span_ns
        working, asleep = self._main.wanted_ns >= _MAIN_SHARE * span_ns, self._main.wanted_ns < QUIET * span_ns
        admitted = False
        for tid, thread in list(self._candidates.items()):
            try:
                thread.advance()
            except (OSError, ValueError):
                self._candidates.pop(tid).clock.close()
                continue
            if thread.wanted_ns >= enough:
                along = thread.ran_ns >= _ALONG_SHARE * self._main.ran_ns
                if working and along and not self.full:
                    self.workers[tid] = self._candidates.pop(tid)
                    thread.kept_ns = 0
                    admitted = True
                elif asleep:
                    self._elsewhere_ns += thread.ran_ns
        self._main_ns += self._main.ran_ns
        if admitted:
            self._others = [tid for tid in self._others if tid not in self.workers]
            self.waiting.look()
            self.spin.may = not self.waiting.never_spins()
        if self._main.kept_ns >= _KEEP_NS:
            self._let_go()
        self._take_turns()
        yielding = self._main.ran_ns if self._may_yield(span_ns) else 0
        for thread in (self._main, *self.workers.values(), *self._candidates.values()):
            thread.wanted_ns = thread.ran_ns = 0
        return yielding

    def close(self) -> None:
        self._main_thread.close()
        for thread in (self._main, *self.workers.values(), *self._candidates.values()):
            thread.clock.close()
        self.workers, self._candidates = {}, {}

    def _may_yield(self, span_ns: int) -> bool:
        """Much time in the kernel, without sleeping and without page faults (which are work)."""
        before, self._looked = self._looked, self._standing
        user, system = self._looked.user_ns - before.user_ns, self._looked.system_ns - before.system_ns
        faults_ns = (self._looked.faults - before.faults) * _FAULT_NS
        return (
            self._main.wanted_ns >= STEADY * span_ns and system > _KERNEL_SHARE * (user + system) and faults_ns < system
        )

    def _let_go(self) -> None:
        for tid, thread in list(self.workers.items()):
            if thread.kept_ns < _KEEP_SHARE * self._main.kept_ns:
                self.workers.pop(tid).clock.close()
                self._others.append(tid)
            thread.kept_ns = 0
        self._main.kept_ns = 0

    def _take_turns(self) -> None:
        """Watch the next candidates; all of them where there are few."""
        most = self._most[1]
        if len(self._others) > most:
            start = self._turn % len(self._others)
            self._turn = start + most
            chosen = set((self._others * 2)[start : start + most])
        else:
            chosen = set(self._others)
        for tid in self._candidates.keys() - chosen:
            self._candidates.pop(tid).clock.close()
        for tid in chosen - self._candidates.keys():
            try:
                self._candidates[tid] = self._open(tid)
            except (OSError, ValueError):  # it ended meanwhile
                continue

    def _open(self, tid: int) -> _Thread:
        try:
            return _Thread(ThreadClock(self.process.pid, tid, self.coarse, self._proc))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise CollectorError(
                    "gaptop has as many files open as it may, so the server's threads cannot be read and no CPU device "
                    "is shown: raise the limit (ulimit -n 4096) and start gaptop again."
                ) from error
            raise
