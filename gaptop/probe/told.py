"""Processes whose roles the caller knows, because it started them itself (the lab)."""

from __future__ import annotations

from collections.abc import Sequence

from gaptop_collectors.target import ServerProcess


class ToldProcesses:
    """A :class:`~gaptop_collectors.target.Processes` of the given processes, as long as they live."""

    def __init__(self, processes: Sequence[ServerProcess]) -> None:
        self._processes = tuple(processes)

    def current(self) -> Sequence[ServerProcess]:
        return [process for process in self._processes if _started(process.pid) == process.started]

    def why_empty(self) -> str:
        return "" if self.current() else "The simulated server has ended; start it again with gaptop demo."


def told(processes: Sequence[tuple[int, str, str]], *, python: bool) -> tuple[ServerProcess, ...]:
    """``(pid, role, name)`` of processes that run now; one that has ended is left out. ``python``: they play Python
    servers, whose stacks can be sampled."""
    return tuple(
        ServerProcess(pid, role, name, python, started)  # type: ignore[arg-type]
        for pid, role, name in processes
        if (started := _started(pid)) is not None
    )


def _started(pid: int) -> int | None:
    from gaptop_collectors.host.proctable import read_row

    row = read_row(pid)
    return row.started if row is not None else None
