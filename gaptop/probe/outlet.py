"""The one way out of the probe: lines in one order, written by one thread, in bounded memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from gaptop.recording.lines import Batch, Frames, Header, Hole, Line, Source, Spans, Tick, encode, times

WAITING: Final = 8 << 20
"""Bytes that may wait for a reader that does not read; beyond, readings are dropped and leave holes."""
_TOGETHER: Final = 0.4
"""Seconds that lines may wait for a tick (four a second), with which they go at once: readers conclude nothing before
one, and each write wakes two processes."""
_PIECE: Final = 1 << 16
"""Bytes that do not wait any longer (what a pipe holds)."""
_NOT_READ: Final = "the reader of the stream did not keep up"


class Outlet:
    """Encodes lines at once and writes them in the order of :meth:`put` to a file descriptor.

    ``broken`` is true once the reader has gone: what comes then is dropped.
    """

    def __init__(self, descriptor: int, most_waiting: int = WAITING) -> None:
        self._descriptor = descriptor
        self._most = most_waiting
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._closing = self._urgent = False
        self._dropped: dict[str, tuple[float, float]] = {}
        self.broken = False
        self._thread = threading.Thread(target=self._write_all, name="outlet", daemon=True)
        self._thread.start()

    def put(self, lines: Iterable[Line]) -> None:
        """Queue lines; those of one call stay together. Never waits for the reader."""
        encoded = [(line, encode(line)) for line in lines]
        urgent = any(isinstance(line, Tick | Header) for line, _ in encoded)
        with self._changed:
            if self._dropped and self._waiting < self._most // 2:
                for source, (start, end) in self._dropped.items():
                    self._append(encode(Hole(source, start, end, _NOT_READ)))
                self._dropped.clear()
            for line, raw in encoded:
                if self._waiting < self._most or isinstance(line, Header | Source | Frames | Hole):
                    self._append(raw)
                elif isinstance(line, Batch | Spans):
                    self._drop(line)
            if urgent or self._waiting >= _PIECE:
                self._urgent = True
                self._changed.notify()

    def close(self, timeout: float) -> None:
        """Write what is queued, for at most so many seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)

    def _append(self, raw: bytes) -> None:
        self._queue.append(raw)
        self._waiting += len(raw)

    def _drop(self, line: Batch | Spans) -> None:
        span = times(line)
        if span is not None:
            start, end = self._dropped.get(line.src, span)
            self._dropped[line.src] = (min(start, span[0]), max(end, span[1]))

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._urgent or self._closing, _TOGETHER)
                self._urgent = False
                if self._closing and not self._queue:
                    return
                piece = b"".join(self._queue)
                self._queue.clear()
            view = memoryview(piece)
            while view and not self.broken:
                try:
                    written = os.write(self._descriptor, view)
                except OSError:
                    # Nobody reads any more; the main loop sees it and ends the probe.
                    self.broken = True
                    break
                view = view[written:]
                with self._changed:
                    self._waiting -= written
            if self.broken:
                with self._changed:
                    self._waiting = 0
                    self._queue.clear()
