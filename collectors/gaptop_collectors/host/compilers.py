"""Compilers among a server's helpers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.proctable import read_argv
from gaptop_collectors.target import ServerProcess

_COMPILER: Final = re.compile(
    r"(.*-)?(nvcc.*|ptxas.*|cicc|cudafe\+\+|fatbinary|nvlink|cc1|cc1plus|c\+\+|cc|g\+\+|gcc|clang(\+\+)?|as|ld(\.\w+)?"
    r"|lld|collect2|ninja|make|cmake|ccache|sccache|triton-(compile|opt|translate|llvm-opt)|hipcc|amdgcn.*|lld-link)"
    r"(-\d+(\.\d+)*)?\Z"
)
_WORKER: Final = "_inductor/compile_worker"
"""In the command line of torch's compile workers, which stay when they have nothing to compile."""
_BUSY: Final = 0.05


def is_compiler(name: str) -> bool:
    """Whether a process name (perhaps cut to 15 characters by the kernel) is that of a compiler or its helpers."""
    return _COMPILER.match(name.rpartition("/")[2]) is not None


class Compilers:
    """Counts those that run. One that lives shorter than the time between two counts may be missed."""

    def __init__(self) -> None:
        self._workers: dict[tuple[int, int], bool] = {}
        self._seconds: dict[tuple[int, int], float] = {}
        self._counted = time.monotonic()

    def count(self, processes: Iterable[ServerProcess]) -> int:
        now = time.monotonic()
        elapsed, self._counted = now - self._counted, now
        before, self._seconds = self._seconds, {}
        known, self._workers = self._workers, {}
        found = 0
        for process in processes:
            key = process.pid, process.started
            if process.role != "other":
                continue
            if is_compiler(process.name):
                found += 1
                continue
            worker = known.get(key)
            if worker is None:
                worker = process.python and any(_WORKER in word for word in read_argv(process.pid))
            self._workers[key] = worker
            usage = read_usage(process.pid) if worker else None
            if usage is not None and usage.started == process.started:
                self._seconds[key] = usage.cpu_seconds
                found += key in before and usage.cpu_seconds - before[key] > _BUSY * elapsed
        return found
