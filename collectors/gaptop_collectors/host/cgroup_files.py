"""Where the kernel keeps a process's CPU quota: the cgroup files, version 1 and 2. Pure but for reading files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Place:
    """A mounted hierarchy that holds the CPU controller, and the process's groups in it, innermost first."""

    version: int
    folders: tuple[Path, ...]


def places(pid: int, proc: Path = _PROC) -> list[Place]:
    """The hierarchies that may hold a CPU quota of ``pid``; raises OSError where the process or /proc cannot be read.

    Inside a container the kernel shows paths relative to the container's own root, or ones that lead out of it; what
    is not mounted here is left out.
    """
    mounts = _mounts((proc / "self/mountinfo").read_text())
    found = []
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        mount = mounts.get(version)
        if mount is not None:
            found.append(Place(version, _folders(mount, path)))
    return found


def throttled_seconds(place: Place) -> float | None:
    """Seconds that quotas held the group or one of its parents back; None where no quota can apply."""
    total, seen = 0.0, False
    for folder in place.folders:
        value = _throttled(folder, place.version)
        if value is not None:
            total, seen = total + value, True
    return total if seen else None


def _throttled(folder: Path, version: int) -> float | None:
    try:
        text = (folder / "cpu.stat").read_text()
    except OSError:
        return None
    word, scale = ("throttled_usec", 1e-6) if version == 2 else ("throttled_time", 1e-9)
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == word:
            return int(value) * scale
    return None


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    root: PurePosixPath


def _mounts(mountinfo: str) -> dict[int, _Mount]:
    """Mount point and mounted root of cgroup v2 (2) and of v1's CPU controller (1)."""
    found: dict[int, _Mount] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or not tail:
            continue
        mount = _Mount(Path(fields[4]), PurePosixPath(fields[3]))
        if tail[0] == "cgroup2":
            found.setdefault(2, mount)
        elif tail[0] == "cgroup" and "cpu" in tail[-1].split(","):
            found.setdefault(1, mount)
    return found


def _folders(mount: _Mount, path: str) -> tuple[Path, ...]:
    inner = PurePosixPath(path)
    if ".." in inner.parts:
        return (mount.point,)
    try:
        inside = inner.relative_to(mount.root)
    except ValueError:
        inside = inner.relative_to("/")
    folder = mount.point / inside
    chain = [folder, *folder.parents]
    return tuple(chain[: chain.index(mount.point) + 1])
