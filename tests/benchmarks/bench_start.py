"""How long people wait: help, the first frame, a recording of an hour."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gaptop.lab.launch import Lab
from tests.benchmarks import hour, processes
from tests.benchmarks.screen import Screen, environment
from tests.benchmarks.table import Row, at_most, missing, told

_TIMES = 3
_PATIENCE = 20.0


def main() -> list[Row]:
    """Rows for the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [_help(folder), _live(folder), *_recording(folder)]


def _help(folder: Path) -> Row:
    """Python's own start is told beside it: nobody can be faster."""
    ours, cpu = _median([sys.executable, "-m", "gaptop", "--help"], folder)
    bare, _ = _median([sys.executable, "-c", "pass"], folder)
    return at_most(f"gaptop --help ({cpu:.2f} s of CPU; Python alone {bare:.2f} s)", ours, 0.25, "s")


def _median(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds on the clock and on the CPU, after a run that compiles."""
    wall, cpu = [], []
    for _ in range(_TIMES + 1):
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment(folder))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall.append(time.monotonic() - begun)
        cpu.append(usage.ru_utime + usage.ru_stime)
    return statistics.median(wall[1:]), statistics.median(cpu[1:])


def _live(folder: Path) -> Row:
    what = "first full frame of gaptop URL"
    with Lab() as lab:
        info = lab.start("steady", 1)
        taken = [_first_frame([info.url], folder) for _ in range(_TIMES + 1)][1:]
    return _frame(what, taken, 1.0)


def _recording(folder: Path) -> list[Row]:
    path = folder / "hour.gaptop"
    what = f"gaptop open, an hour ({hour.write(path, 3600)} lines)"
    taken = [_first_frame(["open", str(path)], folder) for _ in range(_TIMES)]
    with Screen(["open", str(path)], folder) as screen:
        whole = screen.until("end of the recording", seconds=_PATIENCE)
        cpu = processes.spent(screen.pid).own
    read = f"{whole:.1f} s" if whole is not None else f"not within {_PATIENCE:.0f} s"
    return [_frame(f"{what}: first frame", taken, 2.0), told(f"{what}: all judged", f"{read} ({cpu:.1f} s of CPU)")]


def _first_frame(arguments: Sequence[str], folder: Path) -> tuple[float, float] | None:
    """Seconds on the clock and on the screen process's CPU."""
    with Screen(arguments, folder) as screen:
        took = screen.until("quit", "busy")
        return None if took is None else (took, processes.spent(screen.pid).own)


def _frame(what: str, taken: Sequence[tuple[float, float] | None], budget: float) -> Row:
    seen = [each for each in taken if each is not None]
    if not seen:
        return missing(what, "no frame came")
    cpu = statistics.median(each[1] for each in seen)
    return at_most(f"{what} ({cpu:.2f} s of CPU)", statistics.median(each[0] for each in seen), budget, "s")


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
