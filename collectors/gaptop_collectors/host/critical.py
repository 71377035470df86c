"""The thread of a process that every step has to pass, where only the name that Python gave it tells which one that is.

py-spy's collector learns it; the reader of /proc, which sees no such names, looks at that thread closely from then on.
Both run in one process, each in a thread of its own.
"""

from __future__ import annotations

import threading
from typing import Final

from gaptop_collectors.target import ServerProcess

_MOST: Final = 256


class CriticalThreads:
    """By process; thread-safe. Of servers that restart in a loop only the processes told latest are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[int, int], int] = {}

    def tell(self, process: ServerProcess, tid: int) -> None:
        key = process.pid, process.started
        with self._lock:
            self._found.pop(key, None)  # told again with each window: living ones are always the newest
            if len(self._found) >= _MOST:
                del self._found[next(iter(self._found))]
            self._found[key] = tid

    def of(self, process: ServerProcess) -> int:
        """The main thread until another one is told."""
        with self._lock:
            return self._found.get((process.pid, process.started), process.pid)


FOUND: Final = CriticalThreads()
"""Of this gaptop."""
