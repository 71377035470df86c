"""A fleet of recorders on a clock of its own, in a world where starts, samples and reading cost what the test says."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import cast
from unittest import mock

from gaptop_collectors.collector import Message
from gaptop_collectors.host import pyspy_fleet, pyspy_roller
from gaptop_collectors.host.pyspy_fleet import Fleet
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_trace import StackTable, Trace
from gaptop_collectors.target import Role, ServerProcess

SECOND = 1_000_000_000


@dataclass
class Costs:
    """Of one process, in CPU seconds; no recorder has more than a core."""

    threads: int
    start: float
    thread: float
    """A tick for each thread."""
    reading: float = 0.009

    @property
    def tick(self) -> float:
        return self.threads * self.thread


class CostlyRecorder:
    """Samples at Poisson times. A tick that is due while the one before it still runs comes right after it."""

    def __init__(self, world: CostWorld, pid: int, rate: int) -> None:
        self._world, self._costs = world, world.costs[pid]
        self.pid, self.rate = pid, rate
        self.started_ns = world.now
        self.lives_ns = world.now + round(self._costs.start * SECOND) + 1
        self.live_ns: int | None = None
        self.asked_ns: int | None = None
        self.code: int | None = None
        self.start_seconds = 0.0
        self.cpu_seconds = 0.0
        self.output = ""
        self.behind = self.ending = False
        self.sampled = True
        self.errors = self.heard_ns = 0
        self.error_share = 0.0
        self._told = 0.0
        self._next_ns = self.lives_ns
        self._ended_ns = 0

    @property
    def event_ns(self) -> int:
        """When something happens to it."""
        return self.lives_ns if self.live_ns is None else self._next_ns

    def advance(self, now: int) -> None:
        if self.code is not None:
            return
        if self.live_ns is None:
            if now < self.lives_ns:
                self.cpu_seconds = (now - self.started_ns) / SECOND
                return
            self.live_ns, self.start_seconds, self.cpu_seconds = self.lives_ns, self._costs.start, self._costs.start
        while self._next_ns <= now:
            if self.asked_ns is not None and self._next_ns >= self.asked_ns:
                self.code, self._ended_ns = 0, self._next_ns
                return
            self.cpu_seconds += self._costs.tick
            wait = self._world.luck.expovariate(self.rate)
            self._next_ns += round(max(wait, self._costs.tick) * SECOND) + 1

    def newly_used(self) -> float:
        before, self._told = self._told, self.cpu_seconds
        return self._told - before

    def used_seconds(self) -> float:
        return self.cpu_seconds

    def poll(self) -> bool:
        return self.code is not None

    def stop(self) -> None:
        self.asked_ns = self.asked_ns or self._world.now

    def kill(self) -> None:
        self.code = -9

    def trace(
        self, table: StackTable, delay_ns: int, not_before_ns: int | None, join_ns: int, alive: Collection[int] | None
    ) -> tuple[Trace, int] | None:
        assert self.live_ns is not None
        self._world.own += self._costs.reading
        start = max(self.live_ns, not_before_ns or 0)
        return Trace((start, max(start, self._ended_ns)), [], {}), 300_000


@dataclass
class CostWorld:
    """``costs`` by pid; ``own`` is our own CPU time."""

    costs: dict[int, Costs]
    now: int = SECOND
    own: float = 0.0
    luck: random.Random = field(default_factory=lambda: random.Random(4))
    recorders: list[CostlyRecorder] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def start(self, pid: int, rate: int) -> Recorder:
        self.recorders.append(CostlyRecorder(self, pid, rate))
        return cast(Recorder, self.recorders[-1])

    def monotonic_ns(self) -> int:
        return self.now

    def thread_time(self) -> float:
        return self.own

    def living_threads(self, pid: int) -> set[int]:
        return set(range(self.costs[pid].threads))

    def spent(self) -> float:
        """Of all recorders and our own, in CPU seconds until now."""
        return self.own + sum(recorder.cpu_seconds for recorder in self.recorders)

    def run(self, fleet: Fleet, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        while self.now < until:
            running = [recorder for recorder in self.recorders[-50:] if recorder.code is None]
            events = [recorder.lives_ns for recorder in running if recorder.live_ns is None]
            events += [recorder.event_ns for recorder in running if recorder.asked_ns is not None]
            self.now = max(self.now + 1_000_000, min([fleet.next_step(self.now), *events, until]))
            for recorder in running:
                recorder.advance(self.now)
            self.messages += fleet.step(self.now)


@contextmanager
def fleet_of(world: CostWorld, roles: Sequence[Role] = ("engine",), *, fast: bool = False) -> Iterator[Fleet]:
    """A fleet that watches one process of each role; the first one's pid is that of the first of ``world.costs``."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(time, "monotonic_ns", world.monotonic_ns))
        stack.enter_context(mock.patch.object(time, "thread_time", world.thread_time))
        for module in (pyspy_fleet, pyspy_roller):
            stack.enter_context(mock.patch.object(module, "living_threads", world.living_threads))
        fleet = Fleet(world.start, fast=fast)
        pids = list(world.costs)
        fleet.adopt([ServerProcess(pid, role, "p", True, 1) for pid, role in zip(pids, roles, strict=True)])
        yield fleet
