"""The threads of one process, read through its open /proc folder: a pid that is used again never reads as the old one.

Threads that do not matter are read by opening their file anew (8 µs, and no descriptor is kept).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_NOHZ: Final = Path("/sys/devices/system/cpu/nohz_full")
GONE: Final = (FileNotFoundError, ProcessLookupError, NotADirectoryError)
"""What the files of a process or thread that has ended raise. Any other OSError tells of us, not of it."""


class Tasks:
    """Raises OSError where the process (started at ``started``) is gone or /proc hides it."""

    def __init__(self, pid: int, started: int, proc: Path = _PROC) -> None:
        process = os.open(proc / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if int(_fields(_read(process, "stat"))[19]) != started:
                raise ProcessLookupError(f"the pid {pid} is another process by now")
            self._folder = os.open("task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=process)
        except (ValueError, IndexError) as error:
            raise ProcessLookupError(str(error)) from error
        finally:
            os.close(process)

    def tids(self) -> list[int]:
        found = [int(name) for name in os.listdir(self._folder)]
        if not found:
            raise ProcessLookupError
        return found

    def open(self, tid: int, name: str) -> int:
        """A descriptor of one of a thread's files."""
        return os.open(f"{tid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)

    def times(self, tid: int, *, schedstat: bool) -> tuple[int, int]:
        """Nanoseconds on a core and waiting for one, since the thread began; without schedstat in ticks, and no waits.

        Raises OSError or ValueError once the thread has ended.
        """
        if schedstat:
            on_core, waited, _ = _read(self._folder, f"{tid}/schedstat").split()
            return int(on_core), int(waited)
        fields = _fields(_read(self._folder, f"{tid}/stat"))
        return (int(fields[11]) + int(fields[12])) * _TICK_NS, 0

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._folder)


def keeps_schedstat() -> bool:
    """Whether this kernel accounts for run-queue waits: without that the file reads ``0 0 0`` or is not there."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return file.read().split() != [b"0", b"0", b"0"]
    except OSError:
        return False


def all_cores_tick(path: Path = _NOHZ) -> bool:
    """Whether a running thread's time is booked at ticks on every core (with ``nohz_full`` only once a second)."""
    try:
        return path.read_text().strip() in ("", "(null)")
    except OSError:
        return True


def may_see_channels(pid: int) -> bool:
    """Whether a process's wait channels may be read; the kernel asks the same right for the link to its program."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return os.access(f"/proc/{pid}/wchan", os.R_OK)


def _read(folder: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.pread(fd, 512, 0)
    finally:
        os.close(fd)


def _fields(stat: bytes) -> list[bytes]:
    return stat.rpartition(b")")[2].split()
