"""What processes cost, read from /proc: CPU seconds and proportional memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """CPU seconds of a process itself, and of its children (those that have ended and those that run)."""

    own: float
    children: float


def children(pid: int) -> list[int]:
    """Processes that it started and that still run."""
    found: list[int] = []
    for task in _listed(Path(f"/proc/{pid}/task")):
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def command(pid: int) -> list[str]:
    """Its command line; [] once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def probe_of(pid: int) -> int | None:
    """The measuring process that a gaptop command has started."""
    return next((child for child in children(pid) if "gaptop.probe" in command(child)), None)


def spent(pid: int) -> Spent:
    """Until now. Raises OSError once it has ended."""
    own, ended = _cpu(pid)
    running = 0.0
    for child in children(pid):
        try:
            running += sum(_cpu(child))
        except OSError:
            continue
    return Spent(own, ended + running)


def memory(pid: int) -> int:
    """Proportional set size in bytes: shared pages count in part. Raises OSError where it may not be read."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no Pss of {pid}")


def _cpu(pid: int) -> tuple[float, float]:
    """Of the process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) * _TICK for field in fields[11:15])
    return user + system, children_user + children_system


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
