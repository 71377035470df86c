"""Where a process may run: the cores it is allowed, their clocks, and its pid in its own container."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CORES: Final = Path("/sys/devices/system/cpu")
_KILO: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """``cores`` that the main thread may run on (affinity within its cpuset); ``inner_pid``: what the process is called
    in its own container, where that differs. None: not told."""

    cores: int | None = None
    inner_pid: int | None = None


def read_allowance(pid: int, proc: Path = _PROC) -> Allowance:
    """From the status file, not from a system call: that would take ``pid`` for one of gaptop's own namespace, which
    another mounted /proc need not be. Raises OSError once the process has ended."""
    cores = inner = None
    for line in (proc / str(pid) / "status").read_bytes().splitlines():
        name, _, value = line.partition(b":")
        if name == b"Cpus_allowed":
            cores = sum(int(word, 16).bit_count() for word in value.split(b","))
        elif name == b"NSpid":
            pids = [int(word) for word in value.split()]
            inner = pids[-1] if len(pids) > 1 else None
    return Allowance(cores, inner)


def shows_clocks(cores: Path = _CORES) -> bool:
    """Whether this host tells how fast its cores run; most virtual machines do not."""
    return any(cores.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))


def clock(core: int, cores: Path = _CORES) -> tuple[float, float | None] | None:
    """A core's clock now and the highest that its hardware has, in hertz; None where it is not told."""
    folder = cores / f"cpu{core}" / "cpufreq"
    now = _hertz(folder / "scaling_cur_freq")
    return None if now is None else (now, _hertz(folder / "cpuinfo_max_freq"))


def _hertz(path: Path) -> float | None:
    try:
        found = int(path.read_text()) * _KILO
    except (OSError, ValueError):
        return None  # a driver may say "<unknown>"
    return found if found > 0 else None
