"""The simulation, read a little ahead of real time, and the mapping of its clock onto ours.

The simulation is deterministic, so each process follows its own copy: what they exchange is only what is due now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from gaptop.lab.core.events import DeviceSpan, HostSpan, StepDone
from gaptop.lab.core.simulation import Simulation

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


class Plan:
    """The engine process's copy: its own spans and messages in order, the device's as soon as they are known."""

    def __init__(self, simulation: Simulation, clock: LiveClock, device: Callable[[DeviceSpan], None]) -> None:
        self.clock = clock
        self._events = simulation.events()
        self._device = device
        self._ready: deque[HostSpan | StepDone] = deque()

    def read_ahead(self) -> None:
        """Simulate until enough events are ready."""
        while len(self._ready) < AHEAD:
            event = next(self._events)
            if isinstance(event, DeviceSpan):
                self._device(event)
            elif isinstance(event, StepDone) or (isinstance(event, HostSpan) and event.thread == "engine"):
                self._ready.append(event)

    def next(self) -> HostSpan | StepDone:
        """The next thing that the engine process does."""
        if not self._ready:
            self.read_ahead()
        event = self._ready.popleft()
        self.clock.follow(event.start)
        return event


class FrontPlan:
    """The front-end process's copy: step messages when the engine says so, the tokeniser's spans by time."""

    def __init__(self, simulation: Simulation) -> None:
        self._events = simulation.events()
        self._steps: deque[StepDone] = deque()
        self._spans: deque[HostSpan] = deque()
        self._seen = 0.0

    def step(self) -> StepDone:
        """The next step message."""
        while not self._steps:
            self._advance()
        return self._steps.popleft()

    def tokenizing(self, until: float) -> HostSpan | None:
        """The tokeniser's next span, or None where it has nothing to do before ``until`` (virtual seconds)."""
        while not self._spans and self._seen < until:
            self._advance()
        return self._spans.popleft() if self._spans else None

    def _advance(self) -> None:
        event = next(self._events)
        self._seen = event.start
        if isinstance(event, StepDone):
            self._steps.append(event)
        elif isinstance(event, HostSpan) and event.thread == "tokenizer":
            self._spans.append(event)
