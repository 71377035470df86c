"""What each thread did, as the simulation tells it, and where its time went by the window.

A thread's spans come in the order of their starts and do not overlap; between two of them it waits for work in its own
way. Two readers follow each thread: the stack sampler and the run states. What both have passed is forgotten.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gaptop.lab.core.events import HostSpan
from gaptop.lab.fast.machine import Kind, ThreadOf
from gaptop.lab.fast.waits import HELD, SPIN, SPINNING, WAIT, waits_on

SPINS: Final = 1.0
"""Seconds for which vLLM's processes keep their cores while they wait for one another (SpinCondition)."""
_ON_CORE: Final = ""
_WANTS: Final = "wants"


class Did(NamedTuple):
    """Over [start, end) the thread did ``phase``; ``state`` is "" on a core, ``wants`` one, else what it slept on."""

    start: float
    end: float
    phase: str
    state: str


class Shares(NamedTuple):
    """Seconds of a window."""

    ran: float
    waited: float
    slept: dict[str, float]


class ThreadLog:
    """One thread. Times are the simulation's seconds; what it did before ``began`` counts nowhere.

    ``free`` is the end of the last thing that it was told to do. ``held``: the engine has requests that it cannot
    schedule. ``sync_spins``: what waits for the device keeps its core.
    """

    def __init__(self, thread: ThreadOf, began: float, sync_spins: bool = False) -> None:
        self.thread = thread
        self.kind: Kind = thread.kind
        self.spans: list[Did] = []
        self.until = began
        self.ran_total = 0.0
        self.held = False
        self._spins = SPINNING if sync_spins else frozenset()
        self._rest = waits_on(thread.kind, WAIT)
        self.free = self._from = began
        self._next = 0

    def add(self, span: HostSpan, paging: bool = False) -> None:
        """What it does next. ``paging``: what blocks it in its work is storage."""
        start, end, _, phase, blocked, waits = span
        if phase == "idle":
            if self.kind == "worker":
                self.reach(end)
                return
            if self.held:
                phase, blocked = HELD, True
        elif phase == "poll" and self.kind != "worker":
            # An engine that keeps its core asks its queue for requests; while it holds some, it sleeps between tries.
            phase, blocked = (HELD, True) if self.held else ("await_requests", False)
        if start > self.until:
            self.reach(start)
        if waits:
            state = _WANTS
        elif not blocked or phase in self._spins:
            state = _ON_CORE
        elif phase == "worker_wait":
            if end > start + SPINS:
                self.spans.append(Did(start, start + SPINS, phase, _ON_CORE))
                start += SPINS
                state = waits_on(self.kind, phase)
            else:
                state = _ON_CORE
        else:
            state = "disk" if paging and phase == "schedule" else waits_on(self.kind, phase)
        self.spans.append(Did(start, end, phase, state))
        self.free = self.until = end

    def reach(self, now: float) -> None:
        """Nothing else began before ``now``: up to there it waited for work."""
        start = self.until
        if now <= start:
            return
        self.until = now
        if self.kind == "worker" and start < self.free + SPINS:
            spun = min(self.free + SPINS, now)
            self._rests(start, spun, SPIN, _ON_CORE)
            start = spun
        if now > start:
            self._rests(start, now, WAIT, self._rest)

    def shares(self, until: float) -> Shares:
        """Where its time went since the last call. ``reach`` must have been told of ``until``."""
        since, self._from = self._from, until
        ran = waited = 0.0
        slept: dict[str, float] = {}
        spans, index, last = self.spans, self._next, len(self.spans)
        while index < last:
            start, end, _, state = spans[index]
            if start >= until:
                break
            part = (end if end < until else until) - (start if start > since else since)
            if part > 0:
                if state == _ON_CORE:
                    ran += part
                elif state == _WANTS:
                    waited += part
                else:
                    slept[state] = slept.get(state, 0.0) + part
            if end > until:
                break
            index += 1
        self._next = index
        self.ran_total += ran
        return Shares(ran, waited, slept)

    def forget(self, before: float) -> None:
        """The stack sampler does not look at what ended by then any more."""
        gone, most = 0, min(self._next, len(self.spans))
        while gone < most and self.spans[gone].end <= before:
            gone += 1
        del self.spans[:gone]
        self._next -= gone

    def _rests(self, start: float, end: float, phase: str, state: str) -> None:
        if self.spans and self.spans[-1].phase == phase and self.spans[-1].end == start:
            self.spans[-1] = self.spans[-1]._replace(end=end)
            self._next = min(self._next, len(self.spans) - 1)
        else:
            self.spans.append(Did(start, end, phase, state))
