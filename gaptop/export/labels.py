"""How a thread and its frames are named in every export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gaptop.timeline.stacks import Frame

UNKNOWN: Final[Frame] = ("[frames not recorded]", "", 0)
"""Stands for the whole of a stack whose frames never came."""


@dataclass(frozen=True, slots=True)
class ThreadLabel:
    """A thread and its process, by the names that the recording gives them."""

    process: str
    pid: int
    thread: str
    tid: int

    @property
    def process_name(self) -> str:
        """The process with its pid."""
        return f"{self.process or 'process'} (pid {self.pid})"

    @property
    def thread_name(self) -> str:
        """The thread with its tid; one without a name is only that."""
        return f"thread {self.tid}" if self.thread == str(self.tid) else f"{self.thread} (tid {self.tid})"


def framed(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames, or what stands for a stack without them."""
    return frames or (UNKNOWN,)


def common(first: Sequence[object], second: Sequence[object]) -> int:
    """How many frames two stacks share from the outermost on."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))
