"""Writes the simulated device's readings, one JSON line a window, as ``devices/feed.py`` reads them."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from time import monotonic_ns, sleep

from gaptop.lab.core.events import DeviceSpan
from gaptop.lab.live.plan import LiveClock
from gaptop.lab.personality import LAG_NS, NAME, UUID, WINDOW_NS, Busy, Personality


class DeviceFeed:
    """Runs in a thread of its own, idle or not. Windows follow one another without a gap."""

    def __init__(self, path: Path, clock: LiveClock) -> None:
        self._path = path
        self._clock = clock
        self._spans: deque[Busy] = deque()

    def add(self, span: DeviceSpan) -> None:
        """The device will be busy; called before the span's window ends."""
        self._spans.append(Busy(self._clock.to_ns(span.start), self._clock.to_ns(span.end), span.compute))

    def run(self) -> None:
        """For ever, or until the file can no longer be written."""
        personality = Personality()
        end_ns = self._clock.origin_ns + WINDOW_NS
        with self._path.open("a", encoding="utf-8") as file:
            while True:
                sleep(max(end_ns + LAG_NS - monotonic_ns(), 0) / 1e9)
                reading = personality.read(end_ns, tuple(self._spans))
                while self._spans and self._spans[0].end_ns <= end_ns:
                    self._spans.popleft()
                line = {
                    "uuid": UUID,
                    "name": NAME,
                    "window_s": WINDOW_NS / 1e9,
                    "t_ns": end_ns,
                    "rounding": "nearest",
                    **reading._asdict(),
                }
                file.write(json.dumps(line) + "\n")
                file.flush()
                end_ns += WINDOW_NS
