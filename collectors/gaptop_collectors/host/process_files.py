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
    """``cpu_seconds`` counts the process's own threads; ``memory`` is resident bytes; ``read_bytes`` None: no right."""

    cpu_seconds: float
    memory: int
    major_faults: int
    read_bytes: int | None
    stopped: bool
    started: int


def read_usage(pid: int, proc: Path = _PROC) -> Usage | None:
    """None once the process has ended (a zombie counts as ended: it runs nothing any more)."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    return Usage(
        cpu_seconds=(int(fields[11]) + int(fields[12])) * _TICK,
        memory=int(fields[21]) * _PAGE,
        major_faults=int(fields[9]),
        read_bytes=_read_bytes(pid, proc),
        stopped=fields[0] in (b"T", b"t"),
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
