"""The thread of a process that every step has to pass, where only the name that Python gave it tells which one that is.

py-spy's collector learns it; the reader of /proc, which sees no such names, looks at that thread closely from then on.
Both run in one process, each in a thread of its own.
"""

from __future__ import annotations

from typing import Final

from gaptop_collectors.target import ServerProcess

_MOST: Final = 256


class CriticalThreads:
    """By process; thread-safe, for each method is one step of a dictionary or harmless when it is not."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], int] = {}

    def tell(self, process: ServerProcess, tid: int) -> None:
        if len(self._found) >= _MOST:
            self._found.clear()  # of servers that restart in a loop; told again with the next window
        self._found[process.pid, process.started] = tid

    def of(self, process: ServerProcess) -> int:
        """The main thread until another one is told."""
        return self._found.get((process.pid, process.started), process.pid)


FOUND: Final = CriticalThreads()
"""Of this gaptop."""
