"""Looking at the processes that a test started."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    command: str


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], what: str, seconds: float = 15.0) -> float:
    """Wait until it is true; gives the seconds that took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.03)
    return time.monotonic() - begun


def family(pid: int) -> list[Process]:
    """The living descendants of a process, with their command lines."""
    found: list[Process] = []
    for child in _children(pid):
        if alive(child):
            found.append(Process(child, _command(child)))
        found += family(child)
    return found


def with_words(processes: Iterable[Process], words: str) -> list[int]:
    """The pids of those whose command line has these words."""
    return [process.pid for process in processes if words in process.command]


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
