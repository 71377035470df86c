"""Interned stacks: each is classified once, and known here by a small number of its own."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gaptop_collectors.signals import ACTIVITIES

Frame = tuple[str, str, int]
Classify = Callable[[Sequence[Frame]], str]

UNSEEN: Final = 0xFFFF_FFFF
"""In a thread's history: nothing was seen of it."""
UNKNOWN: Final = 0
"""The stack of every span whose frames never came: no frames, activity ``other``, id -1."""
OTHER: Final = ACTIVITIES.index("other")
_MOST: Final = 65_536
_DEEPEST: Final = 256
_CODES: Final = {name: code for code, name in enumerate(ACTIVITIES)}


class Stacks:
    """From stack ids of the stream to frames and activities, in bounded memory."""

    def __init__(self, classify: Classify | None) -> None:
        self._classify = classify
        self._index: dict[int, int] = {}
        self._ids: list[int] = [-1]
        self._frames: list[tuple[Frame, ...]] = [()]
        self._free: list[int] = []
        self._shared: dict[Frame, Frame] = {}
        self._codes = bytearray((OTHER,))

    @property
    def full(self) -> bool:
        """There is no room for another stack: call :meth:`sweep`."""
        return len(self._index) >= _MOST

    def add(self, key: Any, frames: Any) -> None:
        """Intern one stack of a ``frames`` line. What is malformed, repeated or beyond the bound is ignored."""
        try:
            stack = int(key)
            if stack in self._index or not 0 <= stack < 2**53 or self.full:
                return
            rows = [(function, file, line if type(line) is int else 0) for function, file, line in frames[-_DEEPEST:]]
        except (TypeError, ValueError):
            return
        if all(type(function) is str and type(file) is str for function, file, _ in rows):
            self._store(stack, tuple(self._shared.setdefault(row, row) for row in rows))

    def index(self, stack: Any) -> int:
        """The small number of a stack; :data:`UNKNOWN` for an id that was not explained."""
        return self._index.get(stack, UNKNOWN) if type(stack) is int else UNKNOWN

    def activity(self, index: int) -> int:
        """Position in ACTIVITIES of what a stack does."""
        return self._codes[index]

    def codes(self) -> npt.NDArray[np.uint8]:
        """The activities of all stacks, by small number."""
        return np.frombuffer(bytes(self._codes), np.uint8)

    def id(self, index: int) -> int:
        """The stream's id of a stack."""
        return self._ids[index]

    def frames(self, stack: int) -> tuple[Frame, ...]:
        """Frames of a stack by the stream's id, outermost first; none where it is not known."""
        index = self._index.get(stack)
        return () if index is None else self._frames[index]

    def sweep(self, keep: Container[int]) -> None:
        """Forget the stacks (by small number) that no history refers to any more."""
        for stack, index in list(self._index.items()):
            if index not in keep:
                del self._index[stack]
                self._frames[index] = ()
                self._free.append(index)
        self._shared = {row: row for frames in self._frames for row in frames}

    def _store(self, stack: int, frames: tuple[Frame, ...]) -> None:
        code = OTHER if self._classify is None else _CODES.get(self._classify(frames), OTHER)
        if self._free:
            index = self._free.pop()
            self._ids[index], self._frames[index], self._codes[index] = stack, frames, code
        else:
            index = len(self._ids)
            self._ids.append(stack)
            self._frames.append(frames)
            self._codes.append(code)
        self._index[stack] = index
