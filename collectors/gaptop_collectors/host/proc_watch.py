"""The threads of one process: which of them matter, and what they did in each window."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host.critical import FOUND
from gaptop_collectors.host.proc_pass import Passes, is_hot
from gaptop_collectors.host.proc_tasks import GONE, Tasks, may_see_channels
from gaptop_collectors.host.proc_thread import ThreadFiles
from gaptop_collectors.host.thread_account import RUNNING, STOPPED, Account
from gaptop_collectors.signals import WAITING_ON, series_key
from gaptop_collectors.target import ServerProcess

SECOND: Final = 1_000_000_000
WINDOW_NS: Final = SECOND // 4
_COOLS_NS: Final = 10 * SECOND
MOST_WATCHED: Final = 12
"""Each costs about 15 µs a look."""
_UNNAMED: Final = 40
"""Sleeping samples without a single wait channel after which we say that the kernel tells none."""
_TOLD: Final = frozenset(WAITING_ON) - {"unknown"}
_RENAMED: Final = 8
"""Passes between two readings of the watched threads' names."""
_NO_SCHEDSTAT: Final = (
    "this kernel keeps no schedstat, so waiting for a core is not seen and CPU time comes in ticks of 10 ms; "
    "`sysctl kernel.task_delayacct=1` turns it on where the kernel was built with it (CONFIG_SCHED_INFO)"
)
_REFUSED: Final = (
    "what threads wait on may not be read: run gaptop as the server's user or as root, in a container with "
    "--cap-add SYS_PTRACE"
)
_UNTOLD: Final = "what threads wait on is not told by this kernel (built without CONFIG_KALLSYMS, or a sandbox)"


class _Thread:
    """A thread that is watched closely."""

    def __init__(self, tid: int, files: ThreadFiles, account: Account, now: int) -> None:
        self.tid = tid
        self.files = files
        self.account = account
        self.hot_until = now + _COOLS_NS
        self.looked = 0
        self.last: tuple[int, int] = (0, 0)
        self.wanted = 0
        self.since = now
        """``wanted`` of its account was counted until then."""
        self.ran = series_key("host.oncpu", tid=tid)
        self.waited = series_key("host.runqueue_wait", tid=tid)
        self.blocked: dict[str, str] = {}
        """The keys of what it was seen to wait on so far."""


class ProcessWatch:
    """Methods raise nothing for a thread that ends; :attr:`gone` tells that the process has. Raises OSError where it
    is gone from the beginning.

    A window is delivered one look after its end: see :mod:`gaptop_collectors.host.thread_account`.
    """

    def __init__(self, process: ServerProcess, *, schedstat: bool, ticks: bool, now: int) -> None:
        self.process = process
        self.source = f"proc/{process.pid}"
        self.gone = False
        self.most = MOST_WATCHED
        """Threads that may be watched closely; the main one always is."""
        self._tasks = Tasks(process.pid, process.started)
        self._schedstat = schedstat
        self._ticks = ticks
        self._channels = may_see_channels(process.pid)
        self._named = self._unnamed = 0
        self._threads: dict[int, _Thread] = {}
        self._passes = Passes(self._tasks, schedstat=schedstat, now=now)
        self._scans = 0
        self._every = self._over = 1.0
        self._began = now
        self._ended: tuple[int, int, bool | None] | None = None
        self._runnable: float | None = None
        self._stopped: bool | None = None
        self._info: SourceInfo | None = None

    @property
    def began(self) -> int:
        """Start of the current window: everything before it is delivered, but for what :meth:`deliver` gives."""
        return self._began

    @property
    def count(self) -> int:
        """Threads of the process at the last pass."""
        return self._passes.count

    @property
    def known(self) -> bool:
        """Whether it is known which of its threads are hot."""
        return self._passes.done > 1

    @property
    def watched(self) -> int:
        """Threads that are watched closely."""
        return len(self._threads)

    def rescan(self, now: int, every: float, most: int | None = None) -> int:
        """Right after :meth:`window`: what so many more threads (None: all) did since they were read last, and which
        are hot; all of them are read each ``every`` seconds. How many were read."""
        passes = self._passes
        try:
            read, hot = passes.advance(now, most, self._threads)
        except GONE:
            self.gone = True
            return 0
        except OSError:
            return 0  # we have no descriptor left (listing them takes one): the next turn tries again
        self._scans += 1
        if passes.over:
            self._pass_over(now, every, in_parts=most is not None and most < passes.count)
        self._watch(now, hot)
        if self._scans % _RENAMED == 0:
            for thread in self._threads.values():
                with contextlib.suppress(OSError):
                    thread.files.rename()
        return read

    def _pass_over(self, now: int, every: float, *, in_parts: bool) -> None:
        passes = self._passes
        for tid in self._threads.keys() - passes.living:
            self._drop(tid)
        wanted = passes.wanted(self._threads)
        for thread in self._threads.values():
            # Its account also knows of a wait that goes on.
            wanted += (thread.account.wanted - thread.wanted) / max(1, now - thread.since)
            thread.wanted, thread.since = thread.account.wanted, now
        # The first passes are closer together, so that hot threads are found at once.
        plain = self._schedstat and 0.5 <= passes.took / SECOND / every <= 2
        self._runnable = wanted if plain and passes.done > 1 else None
        # Read in parts, a thread's last two readings lie a pass apart wherever in the pass it comes.
        self._every, self._over = every, 2 * every if in_parts else every

    def look(self) -> None:
        """Note the state of every watched thread, and what was booked since the last look."""
        self._stopped = None
        for thread in tuple(self._threads.values()):
            self._look_at(thread)

    def window(self, now: int) -> None:
        """End the current window at the look that was just taken."""
        self._ended, self._began = (self._began, now, self._stopped), now
        for thread in self._threads.values():
            thread.account.end()

    def deliver(self) -> list[Message]:
        """The window that has ended, after one more look: its shares, and a new description if something changed."""
        if self._ended is None:
            return []
        (began, now, stopped), self._ended = self._ended, None
        late = now - began > 2 * WINDOW_NS
        values: dict[str, list[float | None]] = {}
        for thread in tuple(self._threads.values()):
            self._shares(thread, now, values)
        if late:
            values.clear()
        if stopped is not None:
            values[series_key("host.stopped", pid=self.process.pid)] = [float(stopped)]
        if self._runnable is not None:
            values[series_key("host.runnable_threads", pid=self.process.pid)] = [self._runnable]
            self._runnable = None
        out: list[Message] = []
        info = self._describe()
        if info != self._info:
            self._info = info
            out.append(info)
        if late:
            out.append(Hole(self.source, began, now, "gaptop's own sampler was late"))
        if values:
            out.append(Batch(self.source, [now], values))
        out.append(Delivered(self.source, now))
        return out

    def close(self) -> None:
        for tid in tuple(self._threads):
            self._drop(tid)
        self._tasks.close()

    def _look_at(self, thread: _Thread) -> None:
        now = time.monotonic_ns()
        try:
            brief = self._named > 0 and thread.tid != self.process.pid
            state, named, on_core, waited = thread.files.look(brief=brief)
        except (OSError, ValueError, IndexError):
            self._drop(thread.tid)
            return
        if state not in (RUNNING, STOPPED):
            self._named += named
            self._unnamed += not named
            if not named and self._named:
                state = RUNNING  # it woke up between the two readings
        if thread.looked:
            thread.account.step(now - thread.looked, on_core - thread.last[0], waited - thread.last[1], state)
        else:
            thread.account.begin(state)
        thread.looked, thread.last = now, (on_core, waited)
        if thread.tid == self.process.pid:
            self._stopped = state == STOPPED

    def _shares(self, thread: _Thread, now: int, values: dict[str, list[float | None]]) -> None:
        shares = thread.account.take()
        if shares is None:
            return
        if is_hot(shares.ran, shares.waited or 0.0):
            thread.hot_until = now + _COOLS_NS
        values[thread.ran] = [shares.ran]
        if shares.waited is not None:
            values[thread.waited] = [shares.waited]
        told = set(shares.blocked)
        if thread.tid in self._kept() and self._named:
            told |= _TOLD  # of these it is also said what they did not wait on
        for reason in told - thread.blocked.keys():
            thread.blocked[reason] = series_key("host.blocked", on=reason, tid=thread.tid)
        for reason, key in thread.blocked.items():
            values[key] = [shares.blocked.get(reason, 0.0)]

    def _watch(self, now: int, hot: list[tuple[float, int]]) -> None:
        """The main thread and the critical one always, then the hottest as far as there is room; cold ones make
        room."""
        kept = self._kept()
        for thread in reversed(tuple(self._threads.values())):
            if thread.tid not in kept and (now > thread.hot_until or len(self._threads) > self.most):
                self._drop(thread.tid)
        wanted = [tid for tid in kept if tid not in self._threads and tid in self._passes.living]
        room = max(len(wanted), self.most - len(self._threads))
        wanted += [tid for _, tid in sorted(hot, reverse=True) if tid not in kept]
        for tid in wanted[:room]:
            with contextlib.suppress(OSError):
                files = ThreadFiles(self._tasks, tid, schedstat=self._schedstat, channel=self._channels)
                account = Account(waits=self._schedstat, ticks=self._ticks)
                self._threads[tid] = _Thread(tid, files, account, now)
                self._look_at(self._threads[tid])

    def _kept(self) -> tuple[int, ...]:
        """The threads that are watched whatever they do, each once."""
        return tuple(dict.fromkeys((self.process.pid, FOUND.of(self.process))))

    def _drop(self, tid: int) -> None:
        thread = self._threads.pop(tid, None)
        if thread is not None:
            thread.files.close()

    def _describe(self) -> SourceInfo:
        watched = sorted(self._threads.values(), key=lambda item: item.tid)
        process = self.process
        booked = ("host.runqueue_wait", "host.runnable_threads")
        return SourceInfo(
            source=self.source,
            collector="host.threads_proc",
            kind="process",
            entity={
                "pid": process.pid,
                "role": process.role,
                "name": process.name,
                "critical_tid": FOUND.of(process),
                "threads": [{"tid": thread.tid, "name": thread.files.name} for thread in watched],
            },
            signals=["host.oncpu", "host.blocked", "host.stopped", *(booked if self._schedstat else ())],
            period=WINDOW_NS / SECOND,
            unsupported={} if self._schedstat else dict.fromkeys(booked, _NO_SCHEDSTAT),
            window=WINDOW_NS / SECOND,
            error=0.004,
            refresh_by_signal={"host.stopped": "scrape"},
            period_by_signal={"host.runnable_threads": self._every} if self._schedstat else {},
            window_by_signal={"host.runnable_threads": self._over} if self._schedstat else {},
            says=self._blindness(),
        )

    def _blindness(self) -> str:
        if not self._channels:
            return _REFUSED
        return _UNTOLD if self._named == 0 and self._unnamed >= _UNNAMED else ""
