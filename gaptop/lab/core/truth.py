"""For every interval in which the device is idle: what was it waiting for? Read off the host's own timeline."""

from __future__ import annotations

from collections.abc import Iterator

from gaptop.lab.core.events import Idle
from gaptop.lab.core.faults import CAUSES


class IdleTruth:
    """The engine thread's time is told without gaps by note(); idle() cuts it to the device's idle intervals."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float, str]] = []
        self.device_free = 0.0

    def note(self, start: float, end: float, waited_for: str) -> None:
        """The engine thread spent [start, end) so that an idle device would be waiting for ``waited_for``."""
        if end > start:
            self._spans.append((start, end, waited_for))

    def idle(self, until: float, busy_until: float) -> Iterator[Idle]:
        """The device was idle from when it was last free to ``until``, and will be busy to ``busy_until``."""
        free = self.device_free
        for start, end, waited_for in self._spans:
            start, end = max(start, free), min(end, until)
            if end > start:
                yield Idle(start, end, waited_for, CAUSES[waited_for])
        self.device_free = busy_until
        self._spans = [span for span in self._spans if span[1] > busy_until]
