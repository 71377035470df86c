"""Other threads that want the server's core: the server is kept on one core for a while, and so are they.

One core and some seconds, so that the machine's other cores stay the user's.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

PROCESSES: Final = 20
_SPIN: Final = "ulimit -t 2; while kill -0 $PPID; do :; done"
"""It ends with us, and at the latest after two seconds of CPU time."""


class Crowd:
    """Kept on one core with it: the thread ``tid``, and all threads of the process ``front``."""

    def __init__(self, tid: int, front: int | None) -> None:
        self._tid = tid
        self._front = front
        self._spinning: list[subprocess.Popen[bytes]] = []
        self._before: set[int] = set()

    def gather(self) -> None:
        """Begin."""
        self._before = os.sched_getaffinity(0)
        core = max(self._before)
        for _ in range(PROCESSES):
            spinning = subprocess.Popen(["sh", "-c", _SPIN], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with suppress(ProcessLookupError):
                os.sched_setaffinity(spinning.pid, {core})
            self._spinning.append(spinning)
        self._keep_on({core})

    def leave(self) -> None:
        """End."""
        self._keep_on(self._before)
        for spinning in self._spinning:
            spinning.kill()
        for spinning in self._spinning:
            spinning.wait()
        self._spinning.clear()

    def _keep_on(self, cores: set[int]) -> None:
        fronts = [] if self._front is None else [int(path.name) for path in Path(f"/proc/{self._front}/task").iterdir()]
        for tid in (self._tid, *fronts):
            with suppress(ProcessLookupError):  # a thread that has ended
                os.sched_setaffinity(tid, cores)
