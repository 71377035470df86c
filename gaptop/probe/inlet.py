"""Lines that come in on the probe's standard input: the configuration, then commands."""

from __future__ import annotations

import os
import select
from typing import Final

_MOST: Final = 1 << 20


class Inlet:
    """Reads lines from a descriptor without ever waiting longer than asked. ``ended`` once the other end is closed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._buffer = b""
        self._lines: list[bytes] = []

    def first(self, timeout: float) -> bytes | None:
        """The first line, or None when none came within ``timeout`` seconds of silence."""
        while not self._lines and not self.ended:
            if not select.select([self.descriptor], [], [], timeout)[0]:
                return None
            self.read()
        return self._lines.pop(0) if self._lines else None

    def read(self) -> None:
        """Take what is there; the descriptor must be readable."""
        try:
            piece = os.read(self.descriptor, 1 << 16)
        except OSError:
            piece = b""
        self._buffer += piece
        *whole, self._buffer = self._buffer.split(b"\n")
        self._lines.extend(whole)
        # A line that never ends is as useless as a closed pipe.
        self.ended = not piece or len(self._buffer) > _MOST

    def take(self) -> list[bytes]:
        """The lines read so far that were not taken yet."""
        taken, self._lines = self._lines, []
        return taken
