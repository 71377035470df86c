"""How many cores a server's compute threads may use at once: their affinity, and the quota of their cgroup."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gaptop_collectors.devices.cpu_threads import PROC
from gaptop_collectors.host.cgroup_files import places, tightest_limit


def affine(tids: Iterable[int], affinity: Callable[[int], set[int]] = os.sched_getaffinity) -> int:
    """Cores that at least one of the threads may run on; 0 where none of them is left to ask."""
    cores: set[int] = set()
    for tid in tids:
        with contextlib.suppress(OSError):
            cores |= affinity(tid)
    return len(cores)


def quota(pids: Iterable[int], proc: Path = PROC) -> float | None:
    """Cores' worth of time that the processes' cgroups may use together; None where one of them has no limit.

    Of a chain of nested groups the tightest counts; processes held by the same group share it.
    """
    limits: dict[Path, float] = {}
    for pid in pids:
        try:
            found = tightest_limit(places(pid, proc))
        except (OSError, ValueError):
            return None
        if found is None:
            return None
        limit, folder = found
        limits[folder] = limit
    return sum(limits.values()) if limits else None
