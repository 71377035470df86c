"""One thread's files under /proc, kept open: reading again through a kept descriptor costs a third of opening it."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from gaptop_collectors.engines.address import printable
from gaptop_collectors.host.proc_tasks import Tasks
from gaptop_collectors.host.thread_account import RUNNING, STOPPED
from gaptop_collectors.host.wait_channels import waits_on

_NONE: Final = (b"0", b"")
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ThreadFiles:
    """Raises OSError (from every method) once the thread has ended; ``channel``: its wait channel may be read."""

    def __init__(self, tasks: Tasks, tid: int, *, schedstat: bool, channel: bool) -> None:
        self._fds: list[int] = []
        try:
            self._stat = self._open(tasks, tid, "stat")
            self._schedstat = self._open(tasks, tid, "schedstat") if schedstat else -1
            self._wchan = self._open(tasks, tid, "wchan") if channel else -1
            self._comm = self._open(tasks, tid, "comm")
            self.name = ""
            self.rename()
        except OSError:
            self.close()
            raise

    def rename(self) -> None:
        """Read the name again: threads are named after they have started. It is anybody's text."""
        text = os.pread(self._comm, 256, 0).decode("utf-8", "replace")
        self.name = printable(text.removesuffix("\n"), 40)

    def look(self, *, brief: bool) -> tuple[str, bool, int, int]:
        """``running``, ``stopped`` or what it waits on; whether the kernel named that; nanoseconds on a core and
        waiting for one, since the thread began. Without schedstat the former come in ticks, and no waits.

        The state is read first: what happens in between is then booked, and nothing booked means the same state.
        ``brief``: where channels are known to be told, they alone tell the state, in a third of the time.
        """
        if brief and self._schedstat >= 0 and self._wchan >= 0:
            channel = os.pread(self._wchan, 64, 0)
            state, named = (RUNNING, True) if channel in _NONE else (waits_on(channel), True)
        else:
            text = os.pread(self._stat, 512, 0)
            fields = text[text.rfind(b")") + 2 :].split(None, 13)
            state, named = self._state(fields[0])
            if self._schedstat < 0:
                return state, named, (int(fields[11]) + int(fields[12])) * _TICK_NS, 0
        on_core, waited, _ = os.pread(self._schedstat, 96, 0).split()
        return state, named, int(on_core), int(waited)

    def _state(self, letter: bytes) -> tuple[str, bool]:
        if letter == b"R":
            return RUNNING, True
        if letter in (b"T", b"t"):
            return STOPPED, True
        if letter in (b"Z", b"X"):
            raise ProcessLookupError
        channel = os.pread(self._wchan, 64, 0) if self._wchan >= 0 else b"0"
        return ("unknown", False) if channel in _NONE else (waits_on(channel), True)

    def close(self) -> None:
        for fd in self._fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._fds.clear()

    def _open(self, tasks: Tasks, tid: int, name: str) -> int:
        fd = tasks.open(tid, name)
        self._fds.append(fd)
        return fd
