"""One process's counters from /proc: CPU time, memory, major faults, bytes read from storage."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """``cpu_seconds`` counts the process's own threads, ``children_seconds`` the children that it has waited for and
    theirs; ``memory`` is resident bytes; ``read_bytes`` None: no right. ``core``: where its main thread ran last;
    ``runnable``: that thread is on it, or waits to be.
    """

    cpu_seconds: float
    children_seconds: float
    threads: int
    memory: int
    major_faults: int
    read_bytes: int | None
    stopped: bool
    runnable: bool
    core: int
    started: int


def read_usage(pid: int, proc: Path = _PROC) -> Usage | None:
    """None once the process has ended (a zombie counts as ended: it runs nothing any more)."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 37 or fields[0] in (b"Z", b"X"):
        return None
    return Usage(
        cpu_seconds=(int(fields[11]) + int(fields[12])) * _TICK,
        children_seconds=(int(fields[13]) + int(fields[14])) * _TICK,
        threads=int(fields[17]),
        memory=int(fields[21]) * _PAGE,
        major_faults=int(fields[9]),
        read_bytes=_read_bytes(pid, proc),
        stopped=fields[0] in (b"T", b"t"),
        runnable=fields[0] == b"R",
        core=int(fields[36]),
        started=int(fields[19]),
    )


def _read_bytes(pid: int, proc: Path) -> int | None:
    try:
        text = (proc / str(pid) / "io").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return None
