"""Sources whose process has ended: they have nothing more to say, and whoever waits for them should know it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import Delivered

_SECOND: Final = 1_000_000_000
_MOST: Final = 16
"""A server that restarts in a loop must not fill the stream: only the latest are kept up."""


class EndedSources:
    """Moves the watermarks of ended sources on, once a second."""

    def __init__(self) -> None:
        self._sources: deque[str] = deque(maxlen=_MOST)
        self._told_ns = 0

    def add(self, source: str) -> None:
        if source not in self._sources:
            self._sources.append(source)

    def discard(self, source: str) -> None:
        """The source lives again (its pid was used once more)."""
        if source in self._sources:
            self._sources.remove(source)

    def messages(self, now_ns: int) -> Sequence[Delivered]:
        if now_ns - self._told_ns < _SECOND or not self._sources:
            return ()
        self._told_ns = now_ns
        return [Delivered(source, now_ns) for source in self._sources]
