"""One thread's files under /proc, kept open: reading again through a kept descriptor costs a fifth of opening it."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from gaptop_collectors.signals import WAITING_ON

STOPPED: Final = "stopped"
RUNNING: Final = "running"

_BY_WORD: Final = (
    ("futex", "futex"),
    ("nanosleep", "sleep"),
    ("schedule_hrtimeout", "sleep"),
    ("pipe", "pipe"),
    ("eventfd", "pipe"),
    ("ep_poll", "poll"),
    ("epoll", "poll"),
    ("poll_schedule", "poll"),
    ("do_poll", "poll"),
    ("do_select", "poll"),
    ("inet_csk_accept", "poll"),
    ("sk_wait", "poll"),
    ("wait_for_connect", "poll"),
    ("unix_stream", "poll"),
    ("unix_wait", "poll"),
    ("skb_wait", "poll"),
    ("skb_recv", "poll"),
    ("wait_woken", "poll"),
    ("io_cqring", "poll"),
    ("io_schedule", "disk"),
    ("folio", "disk"),
    ("wait_on_page", "disk"),
    ("wait_on_buffer", "disk"),
    ("rq_qos", "disk"),
    ("blk_", "disk"),
    ("jbd2", "disk"),
    ("nfs", "disk"),
    ("fuse", "disk"),
)
"""Parts of kernel wait channels (symbols vary with the kernel's version) and what they wait for."""

_known: dict[bytes, str] = {}


def waits_on(channel: bytes) -> str:
    """One of :data:`gaptop_collectors.signals.WAITING_ON` for the text of a wchan file."""
    found = _known.get(channel)
    if found is None:
        text = channel.decode("ascii", "replace")
        found = next((label for word, label in _BY_WORD if word in text), "other")
        assert found in WAITING_ON
        if len(_known) < 1000:
            _known[channel] = found
    return found


class ThreadFiles:
    """Every method raises ProcessLookupError (or FileNotFoundError) once the thread has ended."""

    def __init__(self, pid: int, tid: int) -> None:
        self._folder = f"/proc/{pid}/task/{tid}"
        self.name = _read_text(f"{self._folder}/comm")
        self._schedstat = _open(f"{self._folder}/schedstat")
        self._stat = self._wchan = -1

    def schedule(self) -> tuple[int, int]:
        """Nanoseconds on a core and nanoseconds waiting for one, since the thread began."""
        on_cpu, waiting, _ = os.pread(self._schedstat, 96, 0).split()
        return int(on_cpu), int(waiting)

    def watch(self, with_channel: bool) -> None:
        """Open what :meth:`state` needs."""
        if self._stat < 0:
            self._stat = _open(f"{self._folder}/stat")
        if self._wchan < 0 and with_channel:
            self._wchan = _open(f"{self._folder}/wchan")

    def unwatch(self) -> None:
        for fd in (self._stat, self._wchan):
            if fd >= 0:
                os.close(fd)
        self._stat = self._wchan = -1

    def state(self) -> tuple[str, bool]:
        """``running``, ``stopped`` or what it waits for; and whether the kernel named a wait channel."""
        text = os.pread(self._stat, 128, 0)
        letter = text[text.rfind(b")") + 2 : text.rfind(b")") + 3]
        if letter == b"R":
            return RUNNING, True
        if letter in (b"T", b"t"):
            return STOPPED, True
        if letter in (b"Z", b"X", b""):
            raise ProcessLookupError
        channel = os.pread(self._wchan, 64, 0) if self._wchan >= 0 else b"0"
        if channel in (b"0", b""):
            return ("disk" if letter == b"D" else "other"), letter == b"D"
        found = waits_on(channel)
        return ("disk" if letter == b"D" and found == "other" else found), True

    def ticks(self) -> int:
        """CPU time in clock ticks: the coarse stand-in where the kernel keeps no schedstat."""
        fields = os.pread(self._stat, 512, 0).rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])

    def close(self) -> None:
        self.unwatch()
        with contextlib.suppress(OSError):
            os.close(self._schedstat)


def keeps_schedstat() -> bool:
    """Whether this kernel accounts for run-queue waits: without CONFIG_SCHED_INFO the file reads ``0 0 0``."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return file.read().split() != [b"0", b"0", b"0"]
    except OSError:
        return False


def may_see_channels(pid: int) -> bool:
    """Whether a process's wait channels may be read; the kernel asks the same right for the link to its program."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return os.access(f"/proc/{pid}/wchan", os.R_OK)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
