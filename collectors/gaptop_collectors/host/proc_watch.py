"""The threads of one process: which of them matter, and what they did in each window."""

from __future__ import annotations

import os
from typing import Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.host.proc_thread import RUNNING, STOPPED, ThreadFiles, may_see_channels
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import ServerProcess

SECOND: Final = 1_000_000_000
WINDOW_NS: Final = SECOND // 4
_HOT: Final = 0.01
"""Share of a core above which a thread is watched closely …"""
_WAKING: Final = 0.003
_STARVED: Final = 0.2
"""… or, for one that runs at all, the share of time that it waits to: on a loaded host every thread waits a little."""
_COOLS_NS: Final = 10 * SECOND
_MOST_WATCHED: Final = 16
_UNNAMED: Final = 40
"""Sleeping samples without a single wait channel after which we say that the kernel tells none."""
_NO_SCHEDSTAT: Final = "this kernel keeps no schedstat (CONFIG_SCHED_INFO): CPU time is in ticks of 10 ms"
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


class _Thread:
    """A thread that is known; its counts are of the current window."""

    def __init__(self, pid: int, tid: int) -> None:
        self.files = ThreadFiles(pid, tid)
        self.tid = tid
        self.watched = False
        self.fresh = True
        self.hot_until = 0
        self.last: tuple[int, int] = (0, 0)
        self.counts: dict[str, int] = {}
        self.reasons: set[str] = set()


class ProcessWatch:
    """Methods raise nothing for a thread that ends; :attr:`gone` tells that the process has."""

    def __init__(self, process: ServerProcess, *, schedstat: bool, now: int) -> None:
        self.process = process
        self.source = f"proc/{process.pid}"
        self.gone = False
        self._schedstat = schedstat
        self._channels = may_see_channels(process.pid)
        self._named = self._unnamed = 0
        self._threads: dict[int, _Thread] = {}
        self._turn = 0
        self._began = self._scanned = now
        self._stopped = False
        self._info: SourceInfo | None = None

    @property
    def began(self) -> int:
        """Start of the current window: everything before it is delivered."""
        return self._began

    def rescan(self, now: int, most: int) -> None:
        """Once a second: find new threads and see which are hot. At most ``most`` threads are followed."""
        try:
            tids = {int(name) for name in os.listdir(f"/proc/{self.process.pid}/task")}
        except OSError:
            self.gone = True
            return
        for tid in [tid for tid in self._threads if tid not in tids]:
            self._drop(tid)
        for tid in self._admit(tids - self._threads.keys(), most):
            self._follow(tid)
        elapsed, self._scanned = max(1, now - self._scanned), now
        for thread in tuple(self._threads.values()):
            if not thread.watched:
                self._judge(thread, now, elapsed)

    def look(self) -> None:
        """Note the state of every watched thread."""
        for thread in tuple(self._threads.values()):
            if not thread.watched:
                continue
            try:
                state, named = thread.files.state()
            except OSError:
                self._drop(thread.tid)
                continue
            if state not in (RUNNING, STOPPED):
                self._named += named
                self._unnamed += not named
            if named or not self._named:  # else it woke up between the two readings: no sample of a wait
                thread.counts[state] = thread.counts.get(state, 0) + 1
            if thread.tid == self.process.pid:
                self._stopped = state == STOPPED

    def window(self, now: int) -> list[Message]:
        """End the current window at ``now``: its shares, and a new description where something changed."""
        elapsed, began = max(1, now - self._began), self._began
        late = elapsed > 2 * WINDOW_NS
        self._began = now
        values: dict[str, list[float | None]] = {}
        for thread in tuple(self._threads.values()):
            if thread.watched:
                self._account(thread, now, elapsed, None if late else values)
        values[series_key("host.stopped", pid=self.process.pid)] = [1.0 if self._stopped else 0.0]
        out: list[Message] = []
        info = self._describe()
        if info != self._info:
            self._info = info
            out.append(info)
        if late:
            out.append(Hole(self.source, began, now, "gaptop's own sampler was late"))
        out.append(Batch(self.source, [now], values))
        out.append(Delivered(self.source, now))
        return out

    def close(self) -> None:
        for tid in tuple(self._threads):
            self._drop(tid)

    def _account(self, thread: _Thread, now: int, elapsed: int, values: dict[str, list[float | None]] | None) -> None:
        try:
            on_cpu, waiting = self._read(thread)
        except (OSError, ValueError):
            self._drop(thread.tid)
            return
        ran = min(1.0, (on_cpu - thread.last[0]) / elapsed)
        waited = min(1.0 - ran, (waiting - thread.last[1]) / elapsed)
        thread.last = (on_cpu, waiting)
        counts, thread.counts = thread.counts, {}
        if _is_hot(ran, waited):
            thread.hot_until = now + _COOLS_NS
        if not thread.fresh and values is not None:
            self._shares(thread, ran, waited, counts, values)
        thread.fresh = False
        if now > thread.hot_until and thread.tid != self.process.pid:
            thread.watched = False
            thread.files.unwatch()

    def _shares(
        self, thread: _Thread, ran: float, waited: float, counts: dict[str, int], values: dict[str, list[float | None]]
    ) -> None:
        """What is left beside running and waiting to run was slept; the states seen tell on what."""
        tid = thread.tid
        values[series_key("host.oncpu", tid=tid)] = [ran]
        if self._schedstat:
            values[series_key("host.runqueue_wait", tid=tid)] = [waited]
        asleep = {reason: count for reason, count in counts.items() if reason != RUNNING}
        seen = sum(asleep.values())
        slept = 1.0 - ran - waited
        if not seen and slept > 0.02:
            asleep, seen = {"other": 1}, 1
        thread.reasons |= asleep.keys() - {STOPPED}
        for reason in thread.reasons:
            share = slept * asleep.get(reason, 0) / seen if seen else 0.0
            values[series_key("host.blocked", on=reason, tid=tid)] = [share]

    def _read(self, thread: _Thread) -> tuple[int, int]:
        if self._schedstat:
            return thread.files.schedule()
        return round(thread.files.ticks() * _TICK_S * SECOND), 0

    def _judge(self, thread: _Thread, now: int, elapsed: int) -> None:
        try:
            on_cpu, waiting = thread.files.schedule()
            main = thread.tid == self.process.pid
            ran, waited = (on_cpu - thread.last[0]) / elapsed, (waiting - thread.last[1]) / elapsed
            hot = _is_hot(ran, waited) and not thread.fresh
            thread.last, thread.fresh = (on_cpu, waiting), False
            watched = sum(other.watched for other in self._threads.values())
            if main or (watched < _MOST_WATCHED and (hot or not self._schedstat)):
                thread.files.watch(self._channels)
                thread.watched = thread.fresh = True
                thread.hot_until = now + _COOLS_NS
                thread.last = self._read(thread)
        except (OSError, ValueError):
            self._drop(thread.tid)

    def _follow(self, tid: int) -> None:
        try:
            self._threads[tid] = _Thread(self.process.pid, tid)
        except OSError:
            return

    def _admit(self, unknown: set[int], most: int) -> list[int]:
        """Which new threads to follow: all, or, where there are too many, the main thread and then each in its turn,
        in the places of those that were followed longest without being hot.
        """
        if len(self._threads) + len(unknown) > most:
            cold = [tid for tid, thread in self._threads.items() if not thread.watched and tid != self.process.pid]
            for tid in cold[: most // 4]:
                self._drop(tid)
        ordered = sorted(unknown, key=lambda tid: (tid != self.process.pid, tid <= self._turn, tid))
        admitted = ordered[: max(0, most - len(self._threads))]
        if admitted:
            self._turn = admitted[-1]
        return admitted

    def _drop(self, tid: int) -> None:
        thread = self._threads.pop(tid, None)
        if thread is not None:
            thread.files.close()

    def _describe(self) -> SourceInfo:
        blind = not self._channels or (self._named == 0 and self._unnamed >= _UNNAMED)
        watched = sorted((thread for thread in self._threads.values() if thread.watched), key=lambda item: item.tid)
        process = self.process
        missing = {} if self._schedstat else {"host.runqueue_wait": _NO_SCHEDSTAT}
        signals = ["host.oncpu", "host.blocked", "host.stopped", *(["host.runqueue_wait"] if self._schedstat else [])]
        return SourceInfo(
            source=self.source,
            collector="host.threads_proc",
            kind="process",
            entity={
                "pid": process.pid,
                "role": process.role,
                "name": process.name,
                "critical_tid": process.pid,
                "threads": [{"tid": thread.tid, "name": thread.files.name} for thread in watched],
            },
            signals=signals,
            period=WINDOW_NS / SECOND,
            unsupported=missing,
            window=WINDOW_NS / SECOND,
            error=0.004,
            refresh_by_signal={"host.stopped": "scrape"},
            says="what threads wait on is not told here (run gaptop as the server's user or as root)" if blind else "",
        )


def _is_hot(ran: float, waited: float) -> bool:
    return ran > _HOT or (ran > _WAKING and waited > _STARVED)
