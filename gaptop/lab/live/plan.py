"""The simulation, read a little ahead of real time, and the mapping of its clock onto ours.

The simulation is deterministic, so each process follows its own copy: what they exchange is only what is due now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from gaptop.lab.core.events import Condition, DeviceSpan, HostSpan, Limit, StepDone
from gaptop.lab.core.simulation import Simulation

Outside = DeviceSpan | Limit | Condition
"""What happens beside the host's threads."""

AHEAD = 24
"""Events kept ready: more than one turn of the engine's loop has."""

LATE_NS = 500_000_000
"""A thread that is this late was stopped, not busy: the virtual clock then stops as long, and nothing is caught up."""


class LiveClock:
    """Virtual seconds to CLOCK_MONOTONIC nanoseconds."""

    def __init__(self, origin_ns: int) -> None:
        self.origin_ns = origin_ns

    def to_ns(self, seconds: float) -> int:
        """When it happens."""
        return self.origin_ns + int(seconds * 1e9)

    def follow(self, seconds: float) -> None:
        """What happens at ``seconds`` is about to be done: shift the origin where we are far too late."""
        late = monotonic_ns() - self.to_ns(seconds)
        if late > LATE_NS:
            self.origin_ns += late


class FollowingClock(LiveClock):
    """Of a process beside the engine's: its origin is what the engine says."""

    def follow(self, seconds: float) -> None:
        """The engine sees to that."""


class Plan:
    """The copy of one engine's or worker's thread: its own spans in order, what happens outside as soon as it is known.

    The engine's messages are among its own.
    """

    def __init__(
        self,
        simulation: Simulation,
        clock: LiveClock,
        thread: str = "engine",
        outside: Callable[[Outside], None] = lambda event: None,
    ) -> None:
        self.clock = clock
        self._thread = thread
        self._events = simulation.events()
        self._outside = outside
        self._ready: deque[HostSpan | StepDone] = deque()

    def read_ahead(self) -> None:
        """Simulate until enough events are ready."""
        while len(self._ready) < AHEAD:
            event = next(self._events)
            if isinstance(event, Outside):
                self._outside(event)
            elif isinstance(event, StepDone):
                if self._thread == "engine":
                    self._ready.append(event)
            elif isinstance(event, HostSpan) and event.thread == self._thread:
                self._ready.append(event)

    def next(self) -> HostSpan | StepDone:
        """The next thing that the thread does."""
        if not self._ready:
            self.read_ahead()
        event = self._ready.popleft()
        self.clock.follow(event.start)
        return event


class FrontPlan:
    """The front end's copy: step messages when the engine says so, the tokenisers' spans by time. ``launched`` is told
    of the device's steps before the messages that come after them."""

    def __init__(self, simulation: Simulation, launched: Callable[[DeviceSpan], None] = lambda span: None) -> None:
        self._launched = launched
        self._events = simulation.events()
        self._steps: deque[StepDone] = deque()
        self._spans: deque[HostSpan] = deque()
        self._seen = 0.0
        self._stopped = (0.0, 0.0)

    def step(self) -> StepDone:
        """The next step message; while the front end is stopped it starts no work, so the message starts after that."""
        while not self._steps:
            self._advance()
        return self._steps.popleft()

    def tokenizing(self, until: float) -> HostSpan | None:
        """The tokenisers' next span, or None where it has nothing to do before ``until`` (virtual seconds)."""
        while not self._spans and self._seen < until:
            self._advance()
        return self._spans.popleft() if self._spans else None

    def _advance(self) -> None:
        event = next(self._events)
        self._seen = event.start
        if isinstance(event, StepDone):
            stopped, resumed = self._stopped
            held = stopped <= event.start < resumed
            self._steps.append(event._replace(start=resumed) if held else event)
        elif isinstance(event, HostSpan) and event.thread.startswith("tokenizer"):
            self._spans.append(event)
        elif isinstance(event, DeviceSpan):
            self._launched(event)
        elif isinstance(event, Condition) and event.what == "stopped":
            self._stopped = (event.start, event.end)
