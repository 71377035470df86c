"""The watched server's processes as they are now, through restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from gaptop_collectors.engines.address import host_and_port
from gaptop_collectors.host.proctable import ProcessTable, hidden_here, is_local, listeners, read_row, scan
from gaptop_collectors.host.roots import find_roots, processes_of, root_at_port
from gaptop_collectors.target import Server, ServerProcess

_REFRESH: Final = 1.0
_SEARCH: Final = 3.0
"""Seconds between two searches for a server that has gone (each reads every command line of the host)."""


class ProcessTree:
    """Implements ``Processes``: thread-safe, reads /proc at most once a second.

    ``rediscover`` finds the root's pid when the known one has ended (None: not there now); by default that is the
    process that listens on the URL's port. The first of ``server.processes`` is the root.
    """

    def __init__(self, server: Server, rediscover: Callable[[], int | None] | None = None) -> None:
        self._server = server
        self._engine = server.engine
        self._rediscover = rediscover or self._by_port
        self._table = ProcessTable()
        self._lock = threading.Lock()
        self._processes: tuple[ServerProcess, ...] = server.processes
        self._root = (server.processes[0].pid, server.processes[0].started) if server.processes else None
        self._next = 0.0
        self._searched = 0.0
        self._local: bool | None = None

    def current(self) -> Sequence[ServerProcess]:
        """The processes of the tree, root first; () while the server is down or cannot be seen."""
        with self._lock:
            now = time.monotonic()
            if now >= self._next:
                self._refresh(now)
                # At most half a per cent of a core, however long the process table is.
                self._next = now + max(_REFRESH, 200 * (time.monotonic() - now))
            return self._processes

    def why_empty(self) -> str:
        """The sentence that says why current() is empty; "" when it is not."""
        if self.current():
            return ""
        if self._root is not None:
            return (
                f"The server's process {self._root[0]} has ended, so its threads are not visible; gaptop follows it as "
                "soon as it is started again."
            )
        if self._server.says:
            return self._server.says
        where = "listens on this host where gaptop can see it" if self._is_local() else "runs on this host"
        remedy = hidden_here() if self._is_local() else ""
        remedy = remedy or "run gaptop on the server's host, as the server's user or with sudo"
        return f"No process of {self._server.url} {where}, so host lanes stay empty; {remedy}."

    def _refresh(self, now: float) -> None:
        if self._root is not None:
            pid, started = self._root
            row = read_row(pid)
            if row is not None and row.started == started:
                below = {process.pid for process in self._processes}
                self._processes = processes_of(self._table.scan(below | {pid}), pid, self._engine)
                return
        self._processes = ()
        if now - self._searched < _SEARCH:
            return
        self._searched = now
        found = self._rediscover()
        row = read_row(found) if found is not None else None
        if found is not None and row is not None:
            self._root = (found, row.started)
            self._processes = processes_of(scan(), found, self._engine)

    def _by_port(self) -> int | None:
        if not self._is_local():
            return None
        rows = scan()
        _, port = host_and_port(self._server.url)
        unknown = self._server.engine == "unknown"  # it had not answered when it was named
        roots = [root for root in find_roots(rows) if unknown or root.engine == self._engine]
        root = root_at_port(rows, roots, listeners(), port)
        if root is None:
            return None
        self._engine = root.engine
        return root.pid

    def _is_local(self) -> bool:
        if self._local is None:
            self._local = is_local(host_and_port(self._server.url)[0])
        return self._local
