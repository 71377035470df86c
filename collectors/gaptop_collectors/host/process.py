"""The server's processes as a whole: CPU time, memory, faults, compilers under them, connections, and their comings
and goings.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Message, Note, SourceInfo
from gaptop_collectors.engines.address import host_and_port, split_address
from gaptop_collectors.host.process_files import Usage, read_usage
from gaptop_collectors.host.tcp_table import TcpTable
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import Processes, ServerProcess

_COMPILER: Final = re.compile(
    r"(.*-)?(nvcc|ptxas.*|cicc|cudafe\+\+|fatbinary|nvlink|cc1|cc1plus|c\+\+|cc|g\+\+|gcc|clang(\+\+)?|as|ld(\.\w+)?|lld"
    r"|collect2|ninja|triton-(compile|opt|translate|llvm-opt)|hipcc|amdgcn.*|lld-link)(-\d+(\.\d+)*)?\Z"
)
_TABLE_BUDGET_S: Final = 0.004
"""CPU seconds a second that reading the kernel's table of connections may cost."""
_RAREST: Final = 9
_NO_RIGHT: Final = "reading it needs the server's user or root"


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
        return ()

    def sample(self) -> Sequence[Message]:
        now = time.monotonic_ns()
        current = [process for process in self._processes.current() if process.role != "other"]
        out: list[Message] = list(self._changes(now, {process.pid: process for process in current}))
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
        values["host.compilers"] = [float(self._compilers())]
        self._count_connections(current[0].pid, values)
        info = self._describe(current)
        if info != self._info:
            self._info = info
            out.insert(0, info)
        return [*out, Batch(self._source, [now], values), Delivered(self._source, now)]

    def boost(self, seconds: float) -> None:
        """Nothing to gain: these are counters, whose increments are exact at any period."""

    def close(self) -> None:
        self._known.clear()

    def _write(self, process: ServerProcess, usage: Usage, values: dict[str, list[float | None]]) -> None:
        pid = process.pid
        values[series_key("host.cpu_seconds", pid=pid)] = [usage.cpu_seconds]
        values[series_key("host.memory", pid=pid)] = [float(usage.memory)]
        values[series_key("host.major_faults", pid=pid)] = [float(usage.major_faults)]
        values[series_key("host.stopped", pid=pid)] = [float(usage.stopped)]
        if usage.read_bytes is None:
            self._unsupported["host.read_bytes"] = _NO_RIGHT
        else:
            self._unsupported.pop("host.read_bytes", None)
            values[series_key("host.read_bytes", pid=pid)] = [float(usage.read_bytes)]

    def _compilers(self) -> int:
        return sum(process.role == "other" and is_compiler(process.name) for process in self._processes.current())

    def _count_connections(self, pid: int, values: dict[str, list[float | None]]) -> None:
        """A large host has a slow table: it is then left out at times (not observed, rather than an old value)."""
        if self._skip > 0:
            self._skip -= 1
            return
        began = time.thread_time()
        try:
            found = self._table.count(pid)
        except (OSError, ValueError, IndexError) as error:
            self._unsupported["host.connections"] = f"the kernel's table of connections cannot be read ({error})"
            return
        self._skip = min(_RAREST, int((time.thread_time() - began) / _TABLE_BUDGET_S))
        if not found.listening:
            self._unsupported["host.connections"] = (
                f"nobody listens on port {self._port} beside the server (a proxy or another network namespace)"
            )
            return
        self._unsupported.pop("host.connections", None)
        values["host.connections"] = [float(found.others)]

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
        signals = ["host.cpu_seconds", "host.memory", "host.major_faults", "host.stopped", "host.compilers"]
        signals += [name for name in ("host.read_bytes", "host.connections") if name not in self._unsupported]
        return SourceInfo(
            source=self._source,
            collector=self.name,
            kind="host",
            entity={"url": self._url, "pids": [process.pid for process in current]},
            signals=signals,
            period=self.period,
            unsupported=dict(self._unsupported),
            refresh="scrape",
            says="connections are counted without our own",
        )

    def _nothing(self) -> CollectorError:
        return CollectorError(
            self._processes.why_empty() or "The server's processes are not seen, so neither is their use of the host.",
            state="absent",
        )


def is_compiler(name: str) -> bool:
    """Whether a process name (perhaps cut to 15 characters by the kernel) is that of a compiler or its helpers."""
    return _COMPILER.match(name.rpartition("/")[2]) is not None
