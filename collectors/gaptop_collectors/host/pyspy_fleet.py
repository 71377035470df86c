"""The recorders of all processes together: who is watched, how fast, and what that may cost. No thread, no waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message
from gaptop_collectors.host.ended import EndedSources
from gaptop_collectors.host.pyspy_budget import (
    FIRST_RATE,
    MOST_SAVED,
    WINDOWS,
    Load,
    Plan,
    Purse,
    closer,
    make_plan,
)
from gaptop_collectors.host.pyspy_pace import SECOND
from gaptop_collectors.host.pyspy_recorder import Recorder, living_threads
from gaptop_collectors.host.pyspy_roller import Roller
from gaptop_collectors.host.pyspy_trace import StackTable
from gaptop_collectors.target import ServerProcess

_CRITICAL: Final = ("engine", "worker", "server")
_RATION: Final = 6 * SECOND
"""At most one closer look in this time."""
_LEAST_LOOK: Final = 2.0
_TOO_FAST: Final = 1.1
_TOO_SLOW: Final = 0.8
"""A rate stays as long as it lies between these multiples of the planned one, so that sources are not described anew
for nothing; the budget is the stricter side."""
_SETTLE: Final = SECOND // 4
"""Between two looks at what the recorders have used (30 µs each), and between two beginnings."""
_PLANNED: Final = 2 * SECOND
"""A debt changes the plan even when no window comes in."""
_LEAST_WATCHED: Final = round(WINDOWS[0] * SECOND)
"""Recorders do not rest before they have lived so long: at 1 Hz that is a handful of samples."""


class Fleet:
    """Driven by :meth:`step` from one thread, the one that calls ``start(pid, rate)`` (see Roller). ``fast``: whatever
    it costs."""

    def __init__(self, start: Callable[[int, int], Recorder], *, fast: bool) -> None:
        self.rollers: dict[tuple[int, int], Roller] = {}
        self.purse = Purse()
        self._start = start
        self._fast = fast
        self._table = StackTable()
        self._retiring: list[Roller] = []
        self._ended = EndedSources()
        self._loads: list[Load[tuple[int, int]]] = []
        self._plan: Plan[tuple[int, int]] = make_plan([])
        self._running: list[Recorder] = []
        self._rests = False
        self._settled_ns = self._planned_ns = time.monotonic_ns()
        self._own = time.thread_time()
        self._looked_ns = self._begun_ns = self._settled_ns - _RATION

    @property
    def all(self) -> list[Roller]:
        return [*self._retiring, *self.rollers.values()]

    @property
    def watching(self) -> bool:
        """Whether some process is watched, or its last window is on its way."""
        return bool(self.rollers) or bool(self._retiring)

    def trouble(self) -> CollectorError | None:
        """Why nothing at all is watched; None while something is."""
        alive = list(self.rollers.values())
        lost = [roller.trouble for roller in alive if roller.lost and roller.trouble is not None]
        return lost[0] if lost and len(lost) == len(alive) else None

    def next_step(self, now: int) -> int:
        """When :meth:`step` must come even if no recorder says anything until then."""
        return min((roller.next_step(now) for roller in self.all), default=now + SECOND)

    def step(self, now: int) -> list[Message]:
        """Move on; returns what there is to deliver."""
        if now - self._settled_ns >= _SETTLE:
            self._settle(now)
        out: list[Message] = []
        for roller in self.all:
            roller.may_begin = self._fast or (self.purse.may_begin and now - self._begun_ns >= _SETTLE)
            out += roller.step(now)
        self._bury(now, out)
        # All are asked: each tells only once.
        measured = [roller.measured() for roller in self.rollers.values()]
        if any(measured) or now - self._planned_ns >= _PLANNED:
            self._settle(now)
            self._make_plan()
        out += self._ended.messages(now)
        return out

    def adopt(self, wanted: Sequence[ServerProcess]) -> None:
        """Watch exactly these from now on."""
        keys = {(process.pid, process.started): process for process in wanted}
        for key in [key for key in self.rollers if key not in keys]:
            roller = self.rollers.pop(key)
            roller.retire()
            self._retiring.append(roller)
        for key, process in keys.items():
            if key not in self.rollers:
                roller = Roller(process, self._begin, self._table)
                roller.stagger(len(self.rollers), time.monotonic_ns())
                self._ended.discard(roller.source)
                self.rollers[key] = roller
        self._make_plan()

    def look_closer(self, seconds: float, now: int) -> None:
        """Sample faster for so long where something was saved for that, else only deliver soon what is being watched.

        What it costs is taken from the purse as it is used up.
        """
        self._settle(now)
        looked = [load for load in self._loads if load.critical] or self._loads
        rollers = [self.rollers[load.key] for load in looked if load.key in self.rollers]
        seconds = min(self._plan.window, max(_LEAST_LOOK, seconds))
        rate = None
        if not self._fast and now - self._looked_ns >= _RATION:
            rate = closer(self._loads, self._plan, seconds, self.purse.saved)
        if rate is not None:
            self._looked_ns = now
            for roller in rollers:
                roller.pace.look_closer(rate, round(seconds * SECOND))
        elif self._fast or self.purse.saved > sum(load.hand_over for load in looked):
            for roller in rollers:
                roller.pace.hand_over_early()

    def _begin(self, pid: int, rate: int) -> Recorder:
        recorder = self._start(pid, rate)
        self._running.append(recorder)
        self._begun_ns = time.monotonic_ns()
        return recorder

    def _settle(self, now: int) -> None:
        own = time.thread_time()
        spent = sum(recorder.newly_used() for recorder in self._running) + own - self._own
        self._running = [recorder for recorder in self._running if recorder.code is None]
        # Where even the slowest rate is too dear nothing is saved: there is no closer look that it could pay for.
        self.purse.settle((now - self._settled_ns) / SECOND, spent, 0.0 if self._plan.over else MOST_SAVED)
        self._settled_ns, self._own = now, own
        if self._fast:
            return
        seen_enough = all(roller.seen_enough(now, _LEAST_WATCHED) for roller in self.rollers.values())
        self.purse.judge(slow_enough=self._plan.fits, seen_enough=seen_enough)
        if self.purse.empty != self._rests:
            self._rests = self.purse.empty
            if not self._rests:
                self._take_turns(now)
            self._make_plan()

    def _take_turns(self, now: int) -> None:
        """After a rest those begin that were not watched for longest: there may not be enough for all of them."""
        line = sorted(self.rollers.values(), key=lambda item: (item.process.role not in _CRITICAL, item.seen_ns))
        for place, roller in enumerate(line):
            roller.stagger(place, now)

    def _make_plan(self) -> None:
        self._planned_ns = self._settled_ns
        self._loads = []
        known = [roller.learnt for roller in self.rollers.values() if roller.learnt.tick is not None]
        thread = max((learnt.thread for learnt in known), default=None)
        for key, roller in self.rollers.items():
            if roller.lost:
                continue
            if roller.learnt.tick is None:
                roller.learnt.guess_from(len(living_threads(roller.process.pid) or ()), thread)
            self._loads.append(roller.learnt.load(key, roller.process.role in _CRITICAL))
        self._plan = plan = make_plan(self._loads, fast=self._fast, budget=self.purse.for_plan)
        for key, roller in self.rollers.items():
            rate = FIRST_RATE if roller.lost else plan.rates.get(key, 0)
            roller.rests = self.purse.empty and rate > 0
            if roller.rests:
                rate = 0
            if not _TOO_SLOW * rate <= roller.pace.rate <= _TOO_FAST * rate:
                roller.pace.rate = rate
            roller.pace.window_ns = round(plan.window * SECOND)
            roller.over_budget = plan.over

    def _bury(self, now: int, out: list[Message]) -> None:
        for roller in [item for item in self._retiring if item.over]:
            self._retiring.remove(roller)
            self._ended.add(roller.source)
            out.append(Hole(roller.source, min(roller.until, now), now, f"process {roller.process.pid} has ended"))
