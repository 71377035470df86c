"""The server's processes as a whole: CPU time, memory, faults, cores, compilers under them, connections, and their
comings and goings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Message, Note, SourceInfo
from gaptop_collectors.engines.address import host_and_port, split_address
from gaptop_collectors.host.compilers import Compilers
from gaptop_collectors.host.process_files import Usage, read_usage
from gaptop_collectors.host.process_place import Allowance, clock, read_allowance, shows_clocks
from gaptop_collectors.host.tcp_table import TcpTable
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import Processes, ServerProcess

_TABLE_BUDGET_S: Final = 0.002
"""CPU seconds a second that reading the kernel's table of connections may cost while nothing happens."""
_RAREST: Final = 9
_AGAIN_S: Final = 10.0
"""Affinities rarely change."""
_CONNECTIONS: Final = ("host.connections", "host.unaccepted", "host.unread")
_CLOCKS: Final = ("host.core_frequency", "host.core_frequency_max")
_NO_RIGHT: Final = "reading it needs the server's user or root"
_NO_CLOCKS: Final = "this host does not tell how fast its cores run (no cpufreq, as in most virtual machines)"


class ServerProcesses:
    """The collector. Its source is ``process/URL``, without what the URL may hold of credentials."""

    name = "host.process"
    period = 1.0
    deadline = 0.5

    def __init__(self, processes: Processes, url: str) -> None:
        self._processes = processes
        self._url = split_address(url)[0]
        self._port = host_and_port(self._url)[1]
        self._source = f"process/{self._url}"
        self._table = TcpTable(self._port)
        self._skip = 0
        self._boosted_until = 0.0
        self._compilers = Compilers()
        self._allowances: dict[int, Allowance] = {}
        self._allowed_at = 0.0
        self._clocks = False
        self._known: dict[int, ServerProcess] = {}
        self._stopped: set[int] = set()
        self._gone: dict[str, int] = {}
        self._unsupported: dict[str, str] = {}
        self._info: SourceInfo | None = None

    def open(self) -> Sequence[Message]:
        """Raises :class:`CollectorError` where no process of the server is seen."""
        if not self._processes.current():
            raise self._nothing()
        self._info = None
        self._allowed_at = 0.0
        self._clocks = shows_clocks()
        self._unsupported = {} if self._clocks else dict.fromkeys(_CLOCKS, _NO_CLOCKS)
        return ()

    def sample(self) -> Sequence[Message]:
        now = time.monotonic_ns()
        current = [process for process in self._processes.current() if process.role != "other"]
        out: list[Message] = list(self._changes(now, {process.pid: process for process in current}))
        self._allow(current)
        self._unsupported.pop("host.read_bytes", None)
        values: dict[str, list[float | None]] = {}
        for process in current:
            usage = read_usage(process.pid)
            if usage is not None and usage.started == process.started:
                self._write(process, usage, values)
                out += self._stops(now, process, usage.stopped)
        if not values:
            if out:
                return out
            raise self._nothing()
        values["host.compilers"] = [float(self._compilers.count(self._processes.current()))]
        self._count_connections(current[0].pid, values)
        info = self._describe(current)
        if info != self._info:
            self._info = info
            out.insert(0, info)
        return [*out, Batch(self._source, [now], values), Delivered(self._source, now)]

    def boost(self, seconds: float) -> None:
        """Count the connections every time for a while; the rest are counters, exact at any period."""
        self._boosted_until = time.monotonic() + seconds
        self._skip = 0

    def close(self) -> None:
        self._known.clear()

    def _write(self, process: ServerProcess, usage: Usage, values: dict[str, list[float | None]]) -> None:
        pid = process.pid
        values[series_key("host.cpu_seconds", pid=pid)] = [usage.cpu_seconds]
        values[series_key("host.children_seconds", pid=pid)] = [usage.children_seconds]
        values[series_key("host.threads", pid=pid)] = [float(usage.threads)]
        values[series_key("host.memory", pid=pid)] = [float(usage.memory)]
        values[series_key("host.major_faults", pid=pid)] = [float(usage.major_faults)]
        values[series_key("host.stopped", pid=pid)] = [float(usage.stopped)]
        if usage.read_bytes is None:
            self._unsupported["host.read_bytes"] = _NO_RIGHT
        else:
            values[series_key("host.read_bytes", pid=pid)] = [float(usage.read_bytes)]
        cores = self._allowances.get(pid, Allowance()).cores
        if cores is not None:
            values[series_key("host.allowed_cores", pid=pid)] = [float(cores)]
        # The clock of a core that idles says nothing about the server's.
        found = clock(usage.core) if self._clocks and usage.runnable else None
        if found is not None:
            values[series_key("host.core_frequency", pid=pid)] = [found[0]]
            values[series_key("host.core_frequency_max", pid=pid)] = [found[1]]

    def _allow(self, current: Sequence[ServerProcess]) -> None:
        """Which cores each process may use: looked up every few seconds, and for a new process."""
        now = time.monotonic()
        pids = {process.pid for process in current}
        if now - self._allowed_at > _AGAIN_S or pids != self._allowances.keys():
            self._allowed_at = now
            self._allowances = {pid: _allowance(pid) for pid in pids}

    def _count_connections(self, pid: int, values: dict[str, list[float | None]]) -> None:
        """A large host has a slow table: it is then left out at times (not observed, rather than an old value)."""
        if self._skip > 0:
            self._skip -= 1
            return
        began = time.thread_time()
        try:
            found = self._table.count(pid)
        except (OSError, ValueError, IndexError) as error:
            why = f"the kernel's table of connections cannot be read ({error})"
            self._unsupported |= dict.fromkeys(_CONNECTIONS, why)
            return
        if time.monotonic() >= self._boosted_until:
            self._skip = min(_RAREST, int((time.thread_time() - began) / _TABLE_BUDGET_S))
        if not found.listening:
            why = f"nobody listens on port {self._port} beside the server (a proxy or another network namespace)"
            self._unsupported |= dict.fromkeys(_CONNECTIONS, why)
            return
        for name, count in zip(_CONNECTIONS, (found.others, found.unaccepted, found.unread), strict=True):
            self._unsupported.pop(name, None)
            values[name] = [float(count)]

    def _changes(self, now: int, current: dict[int, ServerProcess]) -> list[Note]:
        notes = []
        for pid, process in self._known.items():
            if pid not in current or current[pid].started != process.started:
                self._stopped.discard(pid)
                self._gone[process.role] = pid
                says = f"The {process.role} process {pid} ({process.name}) has ended."
                notes.append(self._note(now, "process_ended", says, pid, process.role))
        fresh = [p for pid, p in current.items() if self._known.get(pid) is None or self._known[pid] != p]
        for process in fresh:
            before = self._gone.pop(process.role, None)
            if before is not None:
                says = f"The {process.role} process is now {process.pid}; it was {before}."
                notes.append(self._note(now, "pid_changed", says, process.pid, process.role, before))
        self._known = current
        return notes

    def _stops(self, now: int, process: ServerProcess, stopped: bool) -> list[Note]:
        pid = process.pid
        if stopped == (pid in self._stopped):
            return []
        if stopped:
            self._stopped.add(pid)
            says = (
                f"The {process.role} process {pid} is stopped (SIGSTOP or a debugger); `kill -CONT {pid}` resumes it."
            )
            return [self._note(now, "process_stopped", says, pid, process.role)]
        self._stopped.discard(pid)
        return [
            self._note(now, "process_continued", f"The {process.role} process {pid} runs again.", pid, process.role)
        ]

    def _note(self, now: int, what: str, says: str, pid: int, role: str, before: int | None = None) -> Note:
        data: dict[str, int | str] = {"pid": pid, "role": role}
        if before is not None:
            data["before"] = before
        return Note(now, what, says, self._source, data)

    def _describe(self, current: Sequence[ServerProcess]) -> SourceInfo:
        signals = ["host.cpu_seconds", "host.children_seconds", "host.threads", "host.memory", "host.major_faults"]
        signals += ["host.stopped", "host.allowed_cores", "host.compilers"]
        signals += [name for name in ("host.read_bytes", *_CLOCKS, *_CONNECTIONS) if name not in self._unsupported]
        inner = {process.pid: self._allowances.get(process.pid, Allowance()).inner_pid for process in current}
        return SourceInfo(
            source=self._source,
            collector=self.name,
            kind="host",
            entity={"url": self._url, "pids": list(inner), "inner_pids": list(inner.values())},
            signals=signals,
            period=self.period,
            unsupported=dict(self._unsupported),
            refresh="scrape",
            says="connections are counted without our own" + _container(inner),
        )

    def _nothing(self) -> CollectorError:
        return CollectorError(
            self._processes.why_empty() or "The server's processes are not seen, so neither is their use of the host.",
            state="absent",
        )


def _allowance(pid: int) -> Allowance:
    try:
        return read_allowance(pid)
    except (OSError, ValueError):
        return Allowance()


def _container(inner: Mapping[int, int | None]) -> str:
    named = [f"{pid} is {own}" for pid, own in inner.items() if own is not None]
    return "; the server runs in a container: in its own log " + ", ".join(named[:4]) if named else ""
