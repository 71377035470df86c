"""How long each thread of a process was on a core, from /proc, on file descriptors that stay open.

``/proc/PID/task/TID/schedstat`` holds nanoseconds on a core and nanoseconds waiting for one, brought up to date at
scheduler ticks (1 to 10 ms) and switches; kernels without SCHED_INFO show ``0 0 0`` there. The fallback is utime +
stime of ``stat``, in clock ticks (10 ms), without the waiting. Both are readable by everybody. A wait is only counted
once it has ended: a thread that still waits for a core shows none of it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")

_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Times(NamedTuple):
    """Nanoseconds since the thread began: on a core, and waiting for one (0 where the kernel does not tell)."""

    on_core_ns: int
    waiting_ns: int


class Standing(NamedTuple):
    """A thread at one instant: the letter of its state, its CPU time in its own code and in the kernel, its page
    faults, and where its program waits (an address; None while it runs, and where this user may not know)."""

    state: str
    user_ns: int
    system_ns: int
    faults: int
    waits_at: int | None


class ThreadClock:
    """One thread's times; ``coarse`` is what :func:`counts_in_ticks` says. Raises OSError when the thread is gone."""

    def __init__(self, pid: int, tid: int, coarse: bool, proc: Path = PROC) -> None:
        self._coarse = coarse
        name = "stat" if coarse else "schedstat"
        self._descriptor = os.open(f"{proc}/{pid}/task/{tid}/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> Times:
        data = os.pread(self._descriptor, 1024, 0)
        if self._coarse:
            return Times(_ticks_ns(_split(data)), 0)
        on_core, waiting, _ = data.split()
        return Times(int(on_core), int(waiting))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def counts_in_ticks(pid: int, proc: Path = PROC) -> bool:
    """Whether this kernel keeps no schedstat: a main thread exists because it has run, so zeros are no count."""
    task = proc / str(pid) / "task" / str(pid)
    return _numbers(task / "schedstat")[:1] in ([], [0]) and _ticks_ns(_fields(task)) > 0


class MainThread:
    """How a process's main thread stands. Raises OSError when it is gone; a zombie is gone: its times stand still.

    ``started``: its start in clock ticks since boot, which tells a new process with the same pid.
    """

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        task = proc / str(pid) / "task" / str(pid)
        self.started = int(_fields(task)[19])
        self._stat = os.open(task / "stat", os.O_RDONLY | os.O_CLOEXEC)
        self._syscall = -1
        with contextlib.suppress(OSError):
            self._syscall = os.open(task / "syscall", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> Standing:
        fields = _split(os.pread(self._stat, 1024, 0))
        state = fields[0].decode() if fields else "X"
        if state in ("Z", "X"):
            raise ProcessLookupError
        waits_at = None if state == "R" else self._waits_at()
        faults = int(fields[7]) + int(fields[9])
        return Standing(state, int(fields[11]) * _TICK_NS, int(fields[12]) * _TICK_NS, faults, waits_at)

    def close(self) -> None:
        for descriptor in (self._stat, self._syscall):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _waits_at(self) -> int | None:
        try:
            words = os.pread(self._syscall, 256, 0).split()
        except OSError:  # only who may trace the process may know
            return None
        return int(words[-1], 16) if len(words) > 2 else None


def _numbers(schedstat: Path) -> list[int]:
    """The numbers of a schedstat file; none where the kernel has no such file."""
    try:
        return [int(number) for number in schedstat.read_bytes().split()]
    except FileNotFoundError:
        return []


def _fields(task: Path) -> list[bytes]:
    return _split((task / "stat").read_bytes())


def _split(stat: bytes) -> list[bytes]:
    """The fields of a stat file from the third on, counted behind the name, which may hold spaces and brackets."""
    return stat.rpartition(b")")[2].split()


def _ticks_ns(fields: list[bytes]) -> int:
    return (int(fields[11]) + int(fields[12])) * _TICK_NS


def threads_of(pid: int, proc: Path = PROC) -> set[int]:
    """The thread ids of a process; empty when it is gone. Raises PermissionError where /proc hides them."""
    try:
        return {int(name) for name in os.listdir(proc / str(pid) / "task")}
    except PermissionError:
        raise
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
