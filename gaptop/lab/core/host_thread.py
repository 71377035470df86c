"""A host thread's time, told as spans without gaps, and what an idle device waits for meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.cpu import Core
from gaptop.lab.core.events import Event, HostSpan
from gaptop.lab.core.truth import Timeline


class HostThread:
    """``now`` is how far the thread has come. ``timeline`` is told what it spends its time on."""

    def __init__(self, name: str, faults: Faults, add: Callable[[Event], None], timeline: Timeline) -> None:
        self.name = name
        self.now = 0.0
        self._faults = faults
        self._add = add
        self._core = Core(faults)
        self.timeline = timeline

    def work(self, phase: str, seconds: float, waited_for: str = "") -> None:
        """Keep a core busy for ``seconds``, however long that takes."""
        start = self.now
        end = start + seconds
        if end < self._faults.first_lasting:
            self._add(HostSpan(start, end, self.name, phase, False))
            self.timeline.note(start, end, waited_for or phase)
            self.now = end
            return
        for begin, end, held_by in self._core.run(start, seconds):
            self._add(HostSpan(begin, end, self.name, phase, False, bool(held_by)))
            self.timeline.note(begin, end, held_by or waited_for or phase)
            self.now = end

    def block(self, phase: str, until: float, waited_for: str = "") -> None:
        """Sleep until ``until``."""
        if until > self.now:
            self._add(HostSpan(self.now, until, self.name, phase, True))
            self.timeline.note(self.now, until, waited_for or phase)
            self.now = until
            self._core.woke()

    def rest(self, until: float, waited_for: str, *, polling: bool, phase: str = "idle") -> None:
        """Nothing to do until ``until``: sleep, or keep asking."""
        if not polling:
            self.block(phase, until, waited_for)
        elif until > self.now:
            self._add(HostSpan(self.now, until, self.name, "poll", False))
            self.timeline.note(self.now, until, waited_for)
            self.now = until
