"""A cgroup with a CPU quota for a real server: made where the machine allows it, else a skip with the reason."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

PERIOD_US: Final = 100_000
"""The kernel's own default."""


@dataclass(frozen=True, slots=True)
class Group:
    """One cgroup of the CPU controller, version 1 or 2."""

    folder: Path
    version: int

    def add(self, pid: int) -> None:
        """Move a process with all of its threads."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, cores: float | None) -> None:
        """Set the quota; None takes it off."""
        quota = None if cores is None else round(cores * PERIOD_US)
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD_US}")
            return
        (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def throttled(self) -> float:
        """Seconds that the quota held it back so far, as the kernel counts them."""
        word, scale = ("throttled_usec", 1e-6) if self.version == 2 else ("throttled_time", 1e-9)
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        return next(int(line.split()[1]) * scale for line in lines if line.startswith(word))


def _mounted() -> tuple[Path, int]:
    """Where the CPU controller is: version 2's tree where it has it, else version 1's."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point, kind, options = Path(left.split()[4]), right.split()[0], right.split()[-1].split(",")
        if kind == "cgroup2" and "cpu" in (point / "cgroup.controllers").read_text().split():
            return point, 2
        if kind == "cgroup" and "cpu" in options:
            return point, 1
    pytest.skip("no cgroup tree with the CPU controller is mounted here")


@contextlib.contextmanager
def cpu_group() -> Iterator[Group]:
    """A new group without a quota, removed in the end; what is still in it then is moved out."""
    point, version = _mounted()
    group = Group(point / f"gaptop-test-{os.getpid()}", version)
    try:
        if version == 2 and "cpu" not in (point / "cgroup.subtree_control").read_text().split():
            (point / "cgroup.subtree_control").write_text("+cpu")
        group.folder.mkdir()
    except OSError as error:
        where = f"{point} (version {version})"
        pytest.skip(f"no CPU cgroup can be made under {where}: {error.strerror}; it takes root and a writable tree")
    try:
        try:
            group.limit(None)
        except OSError as error:
            pytest.skip(f"no CPU quota can be set in {group.folder}: {error.strerror}")
        yield group
    finally:
        for pid in (group.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (point / "cgroup.procs").write_text(pid)
        for _ in range(20):
            try:
                group.folder.rmdir()
                break
            except OSError:  # its last process is not reaped yet
                time.sleep(0.1)
