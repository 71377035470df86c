"""Where the kernel keeps a process's CPU quota: the cgroup files, version 1 and 2. Pure but for reading files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_PROC: Final = Path("/proc")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Place:
    """A hierarchy that holds the CPU controller, and the process's groups in it, innermost first; () where none of
    them is visible here (another container's)."""

    version: int
    folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """The tightest quota over a process: ``cores``' worth of time, the periods in which its group had something to
    run, and those of them in which it was held back, since the group was made."""

    cores: float
    periods: int
    throttled: int

    def counts(self) -> tuple[float, int, int]:
        return self.cores, self.periods, self.throttled


def places(pid: int, proc: Path = _PROC) -> list[Place]:
    """The hierarchies that may hold a CPU quota of ``pid``; raises OSError where the process or /proc cannot be read.

    The kernel shows paths relative to the reader's own group, so that another container's lead out of it. Those are
    looked for where the process itself has them mounted, which takes the right to trace it, and shows no group above
    its container.
    """
    own = _mounts(proc / "self/mountinfo")
    found = []
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        folders = _folders(own, version, path)
        if folders is None:
            theirs = _mounts(proc / str(pid) / "mountinfo")
            folders = _folders(theirs, version, path, proc / str(pid) / "root")
        if folders is not None or any(mount.version == version for mount in own):
            found.append(Place(version, folders or ()))
    return found


def throttled_seconds(place: Place) -> float | None:
    """Seconds, summed over cores, that quotas held the group or one of its parents back; None where no quota can
    apply."""
    word, scale = ("throttled_usec", 1e-6) if place.version == 2 else ("throttled_time", 1e-9)
    found = [stat[word] * scale for folder in place.folders if word in (stat := _stat(folder))]
    return sum(found) if found else None


def tightest_limit(found: Iterable[Place]) -> tuple[float, Path] | None:
    """The quota that leaves the least, in cores' worth of time, and the group that has it; None where none is set."""
    limits = [
        (limit, folder)
        for place in found
        for folder in place.folders
        if (limit := _limit(folder, place.version)) is not None
    ]
    return min(limits, default=None)


def tightest(found: Iterable[Place]) -> Quota | None:
    """The quota that leaves the least, and how often it held the group back; None where none is set."""
    limit = tightest_limit(found)
    if limit is None:
        return None
    cores, folder = limit
    stat = _stat(folder)
    return Quota(cores, stat.get("nr_periods", 0), stat.get("nr_throttled", 0))


def stalled(folder: Path, name: str) -> float | None:
    """Seconds that some task stalled, from a file of pressure stall information (``folder/name``); None where the
    kernel does not keep it (with psi=0 the file is there and cannot be read)."""
    try:
        text = (folder / name).read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) * 1e-6
    return None


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


def _stat(folder: Path) -> dict[str, int]:
    try:
        lines = (folder / "cpu.stat").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}


@dataclass(frozen=True, slots=True)
class _Mount:
    version: int
    point: Path
    root: PurePosixPath


def _mounts(path: Path) -> list[_Mount]:
    """The mounts of cgroup v2 and of v1's CPU controller; [] where they may not be seen."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or not tail:
            continue
        version = {"cgroup2": 2, "cgroup": 1}.get(tail[0])
        if version == 2 or (version == 1 and "cpu" in tail[-1].split(",")):
            found.append(_Mount(version, Path(_plain(fields[4])), PurePosixPath(_plain(fields[3]))))
    return found


def _folders(mounts: Iterable[_Mount], version: int, path: str, base: Path | None = None) -> tuple[Path, ...] | None:
    """The group's folder and those of its parents as far as they are mounted; None where it is not mounted at all."""
    inner = PurePosixPath(path.removesuffix(" (deleted)"))
    fitting = [mount for mount in mounts if mount.version == version and inner.is_relative_to(mount.root)]
    if not fitting:
        return None
    mount = min(fitting, key=lambda item: len(item.root.parts))  # shows the most parents
    inside = inner.relative_to(mount.root)
    if ".." in inside.parts:
        return None
    point = mount.point if base is None else base / mount.point.relative_to("/")
    folder = point / inside
    chain = [folder, *folder.parents]
    found = tuple(chain[: chain.index(point) + 1])
    return found if found[0].is_dir() else None


def _plain(field: str) -> str:
    """A field of mountinfo: spaces and the like stand there as octal numbers."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)
