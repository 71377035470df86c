"""vLLM's forward passes as a device: what the plug-in noted, in windows, as the feed that gaptop's lab device reads.

The device is busy while the engine's thread computes a forward pass, and not while that waits for a core.
"""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from threading import Event, Thread
from typing import Final

WINDOW_NS: Final = 200_000_000
"""As NVML's, measured at 167-202 ms."""

_LATE_NS: Final = 100_000_000
_NOTE: Final = struct.Struct("<qq")


class ForwardDevice:
    """Writes a window once it is over; use as a context manager. ``notes``: the plug-in's file. ``feed``: ours."""

    def __init__(self, notes: Path, feed: Path) -> None:
        self._notes, self._feed = notes, feed
        self._offset = 0
        self._since: tuple[int, int] | None = None
        self._spans: list[tuple[int, int, float]] = []
        """Start, end, and the share of that time on a core."""
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> ForwardDevice:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        end = time.monotonic_ns() + WINDOW_NS
        with self._feed.open("w", buffering=1) as feed:
            while not self._ended.wait(max(0, end + _LATE_NS - time.monotonic_ns()) / 1e9):
                self._read()
                busy = self._busy(end - WINDOW_NS, end)
                told = {"uuid": "FORWARD", "name": "forward passes", "window_s": WINDOW_NS / 1e9, "t_ns": end}
                feed.write(json.dumps({**told, "busy": busy}) + "\n")
                end += WINDOW_NS

    def _read(self) -> None:
        with self._notes.open("rb") as notes:
            notes.seek(self._offset)
            data = notes.read()
        for t, cpu in _NOTE.iter_unpack(data[: len(data) // _NOTE.size * _NOTE.size]):
            self._offset += _NOTE.size
            if self._since is None:
                self._since = t, cpu
                continue
            start, before = self._since
            self._spans.append((start, t, min(1.0, (cpu - before) / max(t - start, 1))))
            self._since = None

    def _busy(self, start: int, end: int) -> float:
        """The share of a window in which a forward pass was computed; those before it are forgotten."""
        self._spans = [span for span in self._spans if span[1] > start]
        # One that has not ended yet is taken to have its core: what it had is only told at its end.
        spans = [*self._spans, (self._since[0], end, 1.0)] if self._since is not None else self._spans
        ran = sum(max(0, min(last, end) - max(first, start)) * share for first, last, share in spans)
        return min(1.0, ran / (end - start))
