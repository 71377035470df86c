"""How long each thread of a process was on a core, from /proc, on file descriptors that stay open.

``/proc/PID/task/TID/schedstat`` holds nanoseconds on a core and nanoseconds waiting for one, brought up to date at
scheduler ticks (1 to 4 ms) and switches; kernels without SCHED_INFO show ``0 0 0`` there. The fallback is utime + stime
of ``stat``, in clock ticks (10 ms), without the waiting. Both are readable by everybody.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")


class Times(NamedTuple):
    """Nanoseconds since the thread began: on a core, and waiting for one (0 where the kernel does not tell)."""

    on_core_ns: int
    waiting_ns: int


class ThreadClock:
    """One thread's times. Raises OSError when the thread is gone."""

    def __init__(self, pid: int, tid: int, proc: Path = PROC) -> None:
        self.tid = tid
        task = proc / str(pid) / "task" / str(tid)
        self.name = (task / "comm").read_text(errors="replace").strip()
        # A thread that exists has run, so zeros here are a kernel that does not count.
        self.coarse = _numbers(task / "schedstat")[:1] in ([], [0]) and _ticks_ns((task / "stat").read_bytes()) > 0
        self._descriptor = os.open(task / ("stat" if self.coarse else "schedstat"), os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> Times:
        data = os.pread(self._descriptor, 1024, 0)
        if self.coarse:
            return Times(_ticks_ns(data), 0)
        on_core, waiting, _ = data.split()
        return Times(int(on_core), int(waiting))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def _numbers(schedstat: Path) -> list[int]:
    """The numbers of a schedstat file; none where the kernel has no such file."""
    try:
        return [int(number) for number in schedstat.read_bytes().split()]
    except FileNotFoundError:
        return []


def _ticks_ns(stat: bytes) -> int:
    """utime + stime: fields 14 and 15, counted behind the name, which may hold spaces and brackets."""
    fields = stat.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def threads_of(pid: int, proc: Path = PROC) -> set[int]:
    """The thread ids of a process; empty when it is gone."""
    try:
        return {int(name) for name in os.listdir(proc / str(pid) / "task")}
    except OSError:
        return set()


def opens_gpu(pid: int, proc: Path = PROC) -> bool | None:
    """Whether the process has a GPU's device file open (NVIDIA, AMD, WSL2, Jetson); None: this user may not look."""
    folder = proc / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(folder / name).startswith(("/dev/nvidia", "/dev/kfd", "/dev/dxg", "/dev/nvmap")):
                return True
    return False
