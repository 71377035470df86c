"""What the probe and its children (py-spy) cost, read from /proc without walking it."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gaptop.recording.lines import Self

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SELF: Final = Path("/proc/self")


def measure(t: float) -> Self:
    """CPU seconds and resident bytes of this process and its children until now; ``t`` is the line's time.

    The probe's only children are its py-spy recorders, so theirs is the children's CPU time (None: it never had any).
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = ended.ru_utime + ended.ru_stime
    memory = _resident(_SELF)
    any_child = children > 0
    for process in _children():
        any_child = True
        children += _cpu_seconds(process)
        memory += _resident(process)
    total = own.ru_utime + own.ru_stime + children
    return Self(t, round(total, 6), memory, round(children, 6) if any_child else None)


def _children() -> Iterator[Path]:
    for task in os.listdir(_SELF / "task"):
        # A thread that ends meanwhile has no list, nor has one on a kernel without CONFIG_PROC_CHILDREN.
        with contextlib.suppress(OSError):
            for pid in (_SELF / "task" / task / "children").read_text().split():
                yield Path("/proc") / pid


def _cpu_seconds(process: Path) -> float:
    try:
        # The name in parentheses may hold anything; utime and stime are fields 14 and 15 of the line.
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, ValueError, IndexError):
        return 0.0


def _resident(process: Path) -> int:
    try:
        return int((process / "statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
