"""Processes, cgroup and the whole host, as ``host/process.py`` and ``host/cgroup.py`` deliver them each second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gaptop.lab.fast.conditions import Conditions
from gaptop.lab.fast.machine import CORE_HERTZ, CORES, URL, ProcessOf
from gaptop.lab.fast.told import source_line
from gaptop.recording.lines import Batch, Event, Health, Line, Watermark
from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.signals import series_key

PERIOD: Final = 1.0
PROCESS, CGROUP, HOST = f"process/{URL}", f"cgroup/{URL}", "host"
_QUOTA_PERIODS: Final = 10.0
"""A second: the kernel's default period is 100 ms."""
_NO_QUOTA: Final = "no CPU quota applies to the server's cgroup, so it cannot be throttled"
_NO_STEAL: Final = "no stolen time was counted since boot: bare metal, or a hypervisor that does not tell"
_OTHERS_BUSY: Final = 0.02
"""Of all cores, for everything else on the host."""
_CROWDED: Final = 0.1
"""Share of its time that a neighbour's thread waits for a core where all cores are its own kind's (an order of
magnitude)."""
_QUOTA: Final = ("host.quota_cores", "host.quota_periods", "host.throttled_periods")

_OF_PROCESS: Final = (
    *("cpu_seconds", "children_seconds", "threads", "memory", "major_faults", "stopped", "allowed_cores"),
    *("compilers", "read_bytes", "core_frequency", "core_frequency_max", "connections", "unaccepted", "unread"),
)

Columns = dict[str, tuple[float]]


class Host:
    """Three sources. ``quota``: the CPU quota of the server in cores, 0 where none applies."""

    def __init__(self, processes: Sequence[ProcessOf], quota: float, conditions: Conditions, zero: float) -> None:
        self._processes = processes
        self._quota = quota
        self._conditions = conditions
        self._zero = zero
        self.due = zero + 0.35
        self._at = zero
        self._told = False
        self._stopped = False
        self._ran = self._children = self._held = self._held_periods = self._faults = self._read = self._pressure = 0.0
        self._host_pressure = 0.0
        self.newest: float | None = None

    def act(self, now: float, ran: dict[int, float], wanted: float, open_requests: int, unread: int) -> Iterator[Line]:
        """``ran``: seconds on a core by pid so far; ``wanted``: seconds that the server's threads waited for one, in
        the last second."""
        since, self._at = self._at, now
        if not self._told:
            self._told = True
            for info in self._describe():
                yield source_line(self._t(now), info)
        at = self.newest = self._t(now)
        yield from self._stops(now)
        values = self._of_processes(since, now, ran)
        values["host.connections"] = (open_requests + self._conditions.at("connections", now),)
        values["host.unaccepted"], values["host.unread"] = (0.0,), (float(unread),)
        yield Batch(PROCESS, (at,), values)
        yield Watermark(PROCESS, at)
        seconds = max(now - since, 1e-6)
        crowd = self._conditions.during("runnable", since, now) / seconds
        self._pressure += min(seconds, wanted + max(0.0, crowd - CORES) * seconds)
        yield Batch(CGROUP, (at,), self._of_cgroup(since, now))
        yield Watermark(CGROUP, at)
        others = sum(self._conditions.during(what, since, now) for what in ("neighbours", "compilers")) / seconds
        used = self._server(ran) / seconds + crowd
        busy = min(1.0, _OTHERS_BUSY + (used + others) / CORES)
        # Neighbours wait for one another on their own cores: the whole host's pressure, and not the group's.
        self._host_pressure += min(seconds, _CROWDED * self._conditions.during("neighbours", since, now) / CORES)
        key, pressure = series_key("host.pressure", resource="cpu"), self._pressure + self._host_pressure
        yield Batch(HOST, (at,), {"host.busy": (round(busy, 4),), key: (round(pressure, 6),)})
        yield Watermark(HOST, at)
        self.due = max(now, self.due) + PERIOD

    def health(self, now: float) -> Iterator[Health]:
        t = self._t(now)
        for source, collector in ((PROCESS, "host.process"), (CGROUP, "host.cgroup"), (HOST, "host.cgroup")):
            yield Health(t, source, collector, "ok", self.newest, PERIOD)

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _server(self, ran: dict[int, float]) -> float:
        before, self._ran = self._ran, sum(ran.values())
        return max(0.0, self._ran - before)

    def _of_processes(self, since: float, now: float, ran: dict[int, float]) -> Columns:
        conditions, values = self._conditions, {}
        self._children += conditions.ended("compilers", since, now)  # the kernel books a child when it has ended
        self._faults += conditions.during("major_faults", since, now)
        self._read += conditions.during("read_bytes", since, now)
        stopped = float(self._stopped)
        # Who pages, reads adapters and compiles is the process that runs the model.
        owner = next((item.pid for item in self._processes if item.role == "worker"), self._processes[-1].pid)
        for process in self._processes:
            pid, own, front = process.pid, process.pid == owner, process.role in ("api", "server")
            values[series_key("host.cpu_seconds", pid=pid)] = (round(ran[pid], 2),)
            values[series_key("host.children_seconds", pid=pid)] = (round(self._children, 2) if own else 0.0,)
            values[series_key("host.threads", pid=pid)] = (float(len(process.threads) + 20),)
            values[series_key("host.memory", pid=pid)] = (process.memory,)
            values[series_key("host.major_faults", pid=pid)] = (float(int(self._faults)) if own else 0.0,)
            values[series_key("host.stopped", pid=pid)] = (stopped if front else 0.0,)
            values[series_key("host.read_bytes", pid=pid)] = (float(int(self._read)) if own else 0.0,)
            values[series_key("host.allowed_cores", pid=pid)] = (float(CORES),)
            values[series_key("host.core_frequency", pid=pid)] = (CORE_HERTZ,)
            values[series_key("host.core_frequency_max", pid=pid)] = (CORE_HERTZ,)
        values["host.compilers"] = (conditions.at("compilers", now),)
        return values

    def _of_cgroup(self, since: float, now: float) -> Columns:
        held = self._conditions.during("throttled", since, now)
        self._held += held
        values: Columns = {"host.throttled": (round(self._held, 6),)}
        if self._quota:
            each = 1 / _QUOTA_PERIODS
            middles = (since + (step + 0.5) * each for step in range(round((now - since) * _QUOTA_PERIODS)))
            self._held_periods += sum(self._conditions.at("throttled", middle) > 0 for middle in middles)
            values["host.quota_cores"] = (self._quota,)
            values["host.quota_periods"] = (float(int((now - self._zero) * _QUOTA_PERIODS)),)
            values["host.throttled_periods"] = (float(int(self._held_periods)),)
        values[series_key("host.group_pressure", resource="cpu")] = (round(self._pressure, 6),)
        return values

    def _stops(self, now: float) -> Iterator[Line]:
        """A note when the front end is stopped, and when it runs again."""
        stopped = self._conditions.at("stopped", now) > 0
        if stopped == self._stopped:
            return
        self._stopped = stopped
        process = self._processes[0]
        pid, role = process.pid, process.role
        says = f"The {role} process {pid} runs again."
        if stopped:
            says = f"The {role} process {pid} is stopped (SIGSTOP or a debugger); `kill -CONT {pid}` resumes it."
        what = "process_stopped" if stopped else "process_continued"
        yield Event(self._t(now), what, says, PROCESS, {"pid": pid, "role": role})

    def _describe(self) -> Iterator[SourceInfo]:
        pids = [process.pid for process in self._processes]
        yield SourceInfo(
            source=PROCESS,
            collector="host.process",
            kind="host",
            entity={"url": URL, "pids": list(pids), "inner_pids": [None] * len(pids)},
            signals=[f"host.{name}" for name in _OF_PROCESS],
            period=PERIOD,
            refresh="scrape",
            says="connections are counted without our own",
        )
        missing = {} if self._quota else dict.fromkeys(_QUOTA, _NO_QUOTA)
        group = [name for name in ("host.throttled", *_QUOTA, "host.group_pressure") if name not in missing]
        yield self._of_kernel(CGROUP, group, missing)
        yield self._of_kernel(HOST, ["host.busy", "host.pressure"], {"host.steal": _NO_STEAL})

    @staticmethod
    def _of_kernel(source: str, signals: Sequence[str], missing: dict[str, str]) -> SourceInfo:
        return SourceInfo(
            source=source,
            collector="host.cgroup",
            kind="host",
            entity={"cores": CORES},
            signals=signals,
            period=PERIOD,
            unsupported=missing,
            window=PERIOD,
            error=0.01,
            refresh="scrape",
        )
