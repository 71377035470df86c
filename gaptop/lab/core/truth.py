"""For every interval in which a device is idle: what was it waiting for? Read off the host's own timeline."""

from __future__ import annotations

from collections.abc import Iterator

from gaptop.lab.core.causes import CAUSES
from gaptop.lab.core.events import Idle

Note = tuple[float, float, str]


class Timeline:
    """What a host thread's time was spent on, told without gaps and in order of time."""

    def __init__(self) -> None:
        self._spans: list[Note] = []

    def note(self, start: float, end: float, waited_for: str) -> None:
        """The thread spent [start, end) so that an idle device would be waiting for ``waited_for``."""
        if end > start:
            self._spans.append((start, end, waited_for))

    def between(self, start: float, end: float) -> list[Note]:
        """The notes that meet [start, end), cut to it."""
        return [
            (max(note[0], start), min(note[1], end), note[2])
            for note in self._spans
            if note[0] < end and note[1] > start
        ]

    def forget(self, before: float) -> None:
        """Nobody will ask about anything before ``before``."""
        self._spans = [note for note in self._spans if note[1] > before]


class IdleTruth(Timeline):
    """One device's: idle() cuts the critical thread's time to the intervals in which the device is idle."""

    def __init__(self, device: int = 0) -> None:
        super().__init__()
        self._device = device
        self.device_free = 0.0

    def idle(self, until: float, busy_until: float) -> Iterator[Idle]:
        """The device was idle from when it was last free to ``until``, and will be busy to ``busy_until``."""
        for start, end, waited_for in self.between(self.device_free, until):
            yield Idle(start, end, waited_for, CAUSES[waited_for], self._device)
        self.device_free = busy_until
        self.forget(busy_until)
