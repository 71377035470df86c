"""Run states of one process's threads, as ``host/proc_watch.py`` delivers them: shares of windows of 250 ms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gaptop.lab.fast.machine import ProcessOf
from gaptop.lab.fast.threads import Shares, ThreadLog
from gaptop.lab.fast.told import source_line
from gaptop.recording.lines import Batch, Health, Line, Watermark
from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.host.proc_pass import is_hot
from gaptop_collectors.signals import WAITING_ON, series_key

NAME: Final = "host.threads_proc"
WINDOW: Final = 0.25
LATE: Final = 0.125
"""A window is delivered one look after its end."""
ERROR: Final = 0.004
"""Seconds: the kernel books what a thread did at its next tick, so a part of it counts in the window after."""
_COOLS: Final = 10.0
_PASS: Final = 4
"""Windows between two passes over all threads, which tell how many wanted a core."""
_TOLD: Final = tuple(item for item in WAITING_ON if item != "unknown")
_SIGNALS: Final = ("host.oncpu", "host.blocked", "host.stopped", "host.runqueue_wait", "host.runnable_threads")


class _Keys:
    def __init__(self, tid: int) -> None:
        self.ran = series_key("host.oncpu", tid=tid)
        self.waited = series_key("host.runqueue_wait", tid=tid)
        self.slept = {on: series_key("host.blocked", on=on, tid=tid) for on in WAITING_ON}
        self.seen: set[str] = set()
        self.hot_until = float("-inf")
        self.ran_since = self.waited_since = 0.0
        """Seconds since the last pass, of a thread that is not watched."""


class RunStates:
    """The source of one process."""

    def __init__(self, process: ProcessOf, logs: list[ThreadLog], zero: float) -> None:
        self.source = f"proc/{process.pid}"
        self._process = process
        self._zero = zero
        self._keys = {log.thread.tid: _Keys(log.thread.tid) for log in logs}
        self._names = {log.thread.tid: log.thread.comm for log in logs}
        self._wanted: list[float] = []
        self._sent: SourceInfo | None = None
        self.newest: float | None = None

    def window(self, end: float, shares: dict[int, Shares], crowd: float, stopped: bool, now: float) -> Iterator[Line]:
        """``shares`` by thread over the window that ended at ``end``; ``crowd``: other threads of the process that ran
        or wanted to, on average."""
        pid = self._process.pid
        values: dict[str, tuple[float]] = {}
        self._wanted.append(crowd + sum(item.ran + item.waited for item in shares.values()) / WINDOW)
        for tid, seconds in shares.items():
            keys = self._keys[tid]
            ran, waited = min(1.0, seconds.ran / WINDOW), min(1.0, seconds.waited / WINDOW)
            watched = tid == pid or keys.hot_until >= end
            if not watched:
                keys.ran_since += seconds.ran
                keys.waited_since += seconds.waited
            elif is_hot(ran, waited):
                keys.hot_until = end + _COOLS
            if watched:
                # A stopped thread sleeps on nothing.
                self._write(keys, tid == pid, ran, waited, {} if stopped else seconds.slept, values)
        values[series_key("host.stopped", pid=pid)] = (float(stopped),)
        if len(self._wanted) == _PASS:
            values[series_key("host.runnable_threads", pid=pid)] = (round(sum(self._wanted) / _PASS, 4),)
            self._wanted.clear()
            self._pass(end)
        info = self._describe(end)
        if info != self._sent:
            self._sent = info
            yield source_line(self._t(now), info)
        self.newest = self._t(end)
        yield Batch(self.source, (self.newest,), values)
        yield Watermark(self.source, self.newest)

    def health(self, now: float) -> Health:
        return Health(self._t(now), self.source, NAME, "ok", self.newest, LATE)

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _pass(self, end: float) -> None:
        """Each second all threads are looked through: those that turn out hot are watched from now on."""
        for keys in self._keys.values():
            if is_hot(keys.ran_since / (_PASS * WINDOW), keys.waited_since / (_PASS * WINDOW)):
                keys.hot_until = end + _COOLS
            keys.ran_since = keys.waited_since = 0.0

    @staticmethod
    def _write(
        keys: _Keys, main: bool, ran: float, waited: float, slept: dict[str, float], values: dict[str, tuple[float]]
    ) -> None:
        values[keys.ran] = (round(ran, 4),)
        values[keys.waited] = (round(waited, 4),)
        keys.seen.update(slept)
        for on in _TOLD if main else sorted(keys.seen):
            values[keys.slept[on]] = (round(min(1.0, slept.get(on, 0.0) / WINDOW), 4),)

    def _describe(self, end: float) -> SourceInfo:
        process = self._process
        watched = [tid for tid, keys in sorted(self._keys.items()) if tid == process.pid or keys.hot_until >= end]
        return SourceInfo(
            source=self.source,
            collector=NAME,
            kind="process",
            entity={
                "pid": process.pid,
                "role": process.role,
                "name": process.name,
                "critical_tid": process.pid,
                "threads": [{"tid": tid, "name": self._names[tid]} for tid in watched],
            },
            signals=_SIGNALS,
            period=WINDOW,
            window=WINDOW,
            error=ERROR,
            refresh_by_signal={"host.stopped": "scrape"},
            period_by_signal={"host.runnable_threads": _PASS * WINDOW},
            window_by_signal={"host.runnable_threads": _PASS * WINDOW},
        )
