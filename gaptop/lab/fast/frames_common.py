"""Frames that several of vLLM's threads have. A stack is written as ``FUNCTION FILE``, outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Written = tuple[str, ...]
Tails = dict[str, tuple[Written, ...]]
"""Phase to the frames under the thread's own, one tuple for each stack that it was seen in."""

CONDITION: Final = ("Condition.wait threading.py",)
QUEUE: Final = ("Queue.get queue.py", *CONDITION)
SPAWNED: Final = (
    "<module> <string>",
    "spawn_main multiprocessing/spawn.py",
    "_main multiprocessing/spawn.py",
    "BaseProcess._bootstrap multiprocessing/process.py",
    "BaseProcess.run multiprocessing/process.py",
)
THREAD: Final = (
    "Thread._bootstrap threading.py",
    "Thread._bootstrap_inner threading.py",
    "Thread.run threading.py",
)
LOGGED: Final = (
    "Logger.info logging/__init__.py",
    "Logger._log logging/__init__.py",
    "StreamHandler.emit logging/__init__.py",
    "StreamHandler.flush logging/__init__.py",
)


def below(base: Sequence[str], tails: Tails, phase: str) -> list[Written] | None:
    """The whole stacks of ``phase``; None where such a thread does no such thing."""
    found = tails.get(phase)
    return None if found is None else [(*base, *tail) for tail in found]
