"""Writes the simulated devices' readings, one JSON line a window, as ``devices/feed.py`` reads them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import IO

from gaptop.lab.core.events import Condition, DeviceSpan, Limit
from gaptop.lab.live.plan import LiveClock, Outside
from gaptop.lab.personality import LAG_NS, NAME, UUID, WINDOW_NS, Busy, Held, Personality


class _Device:
    """One of them: what it does, and its counters."""

    def __init__(self, index: int) -> None:
        self._named: dict[str, object] = {
            "uuid": f"{UUID[:-1]}{index}",
            "name": NAME,
            "window_s": WINDOW_NS / 1e9,
        }
        self._personality = Personality()
        self.spans: deque[Busy] = deque()
        self.limits: deque[Held] = deque()

    def owned_by(self, pid: int) -> None:
        """Tell whose it is."""
        self._named["pids"] = [pid]

    def line(self, end_ns: int) -> dict[str, object]:
        """The window that ends at ``end_ns``."""
        reading = self._personality.read(end_ns, tuple(self.spans), tuple(self.limits))
        while self.spans and self.spans[0].end_ns <= end_ns:
            self.spans.popleft()
        while self.limits and self.limits[0].end_ns <= end_ns:
            self.limits.popleft()
        return {**self._named, "t_ns": end_ns, "rounding": "nearest", **reading._asdict()}


class DeviceFeed:
    """Runs in a thread of its own, idle or not. Windows follow one another without a gap.

    ``owners``: the process on each device; where there is one device, all are on it and nothing is told.
    ``tells_foreign``: also how many foreign processes are on the devices.
    """

    def __init__(self, path: Path, clock: LiveClock, owners: Sequence[int], *, tells_foreign: bool) -> None:
        self._path = path
        self._clock = clock
        self._devices = [_Device(index) for index in range(len(owners))]
        if len(owners) > 1:
            for device, pid in zip(self._devices, owners, strict=True):
                device.owned_by(pid)
        self._foreign: deque[tuple[int, int]] = deque()
        self._tells_foreign = tells_foreign
        self._pause = Event()

    def add(self, event: Outside) -> None:
        """It will happen; called before the window ends in which it does."""
        start_ns, end_ns = self._clock.to_ns(event.start), self._clock.to_ns(event.end)
        if isinstance(event, DeviceSpan):
            busy = Busy(start_ns, end_ns, event.compute, event.kind, event.clock)
            self._devices[event.device].spans.append(busy)
        elif isinstance(event, Limit):
            self._devices[event.device].limits.append(Held(start_ns, end_ns, event.reason))
        elif isinstance(event, Condition) and event.what == "foreign":
            self._foreign.append((start_ns, end_ns))

    def run(self) -> None:
        """For ever, or until the file can no longer be written."""
        end_ns = self._clock.origin_ns + WINDOW_NS
        with self._path.open("a", encoding="utf-8") as file:
            while True:
                # Not time.sleep(): that has no frame of its own, and would look like work.
                self._pause.wait(max(end_ns + LAG_NS - monotonic_ns(), 0) / 1e9)
                self._write(file, end_ns)
                end_ns += WINDOW_NS

    def _write(self, file: IO[str], end_ns: int) -> None:
        while self._foreign and self._foreign[0][1] < end_ns:
            self._foreign.popleft()
        foreign = sum(start_ns < end_ns for start_ns, _ in tuple(self._foreign))
        for device in self._devices:
            line = device.line(end_ns)
            if self._tells_foreign:
                line["foreign_processes"] = foreign
            file.write(json.dumps(line) + "\n")
        file.flush()
