"""How many cores a server's compute threads may use at once: their affinity, and the quota of their cgroup."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gaptop_collectors.devices.cpu_threads import PROC
from gaptop_collectors.host.cgroup_files import places


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
            found = [
                (limit, folder)
                for place in places(pid, proc)
                for folder in place.folders
                if (limit := _limit(folder, place.version)) is not None
            ]
        except (OSError, ValueError):
            return None
        if not found:
            return None
        limit, folder = min(found)
        limits[folder] = limit
    return sum(limits.values()) if limits else None


def _limit(folder: Path, version: int) -> float | None:
    try:
        if version == 2:
            most, period = (folder / "cpu.max").read_text().split()
        else:
            most = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
    except OSError:
        return None
    return None if most in ("max", "-1") else int(most) / int(period)
