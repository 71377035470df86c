"""The engine's loop on a virtual clock, as a generator of events sorted by their start.

The host thread schedules, prepares and launches a step, then waits for the oldest step in flight and hands its tokens
on; the device runs launched steps one after the other. With two steps in flight the host works while the device does.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from gaptop.lab.core.delivery import Delivery
from gaptop.lab.core.events import DeviceSpan, Event, HostSpan
from gaptop.lab.core.faults import Faults
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.model import DeviceModel, HostModel
from gaptop.lab.core.requests import Request
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.scheduler import Part, Scheduler
from gaptop.lab.core.truth import IdleTruth

REPORT_PERIOD = 0.05
"""While nothing can be scheduled, the engine still tells its state this often (seconds)."""


class _Flight(NamedTuple):
    parts: list[Part]
    ends: float


class Simulation:
    """One run of ``scenario``; the same seed gives the same events. ``events`` may be called once."""

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        self._config = scenario.engine
        self._device = DeviceModel()
        self._host = HostModel()
        self._faults = Faults(scenario.faults)
        self.scheduler = Scheduler(scenario.engine)
        self._front = FrontEnd(scenario, seed, self._host, self._faults)
        self._delivery = Delivery(self.scheduler, self._front, self._host, self._faults)
        self._truth = IdleTruth()
        self._flights: deque[_Flight] = deque()
        self._now = 0.0
        self._steps = 0
        self._reported = 0.0
        self._found: list[tuple[float, int, Event]] = []
        self._number = 0

    def events(self, until: float | None = None) -> Iterator[Event]:
        """Events sorted by start, for ever or up to ``until`` (spans that cross it are yielded whole)."""
        while until is None or self._now < until:
            looked = self._now
            self._turn()
            # Nothing found later can start before the last look at the front end, nor before the device's last end.
            safe = min(looked, self._truth.device_free)
            while self._found and self._found[0][0] <= safe:
                yield heapq.heappop(self._found)[2]
        for idle in self._truth.idle(self._now, self._now):
            self._find(idle)
        while self._found:
            yield heapq.heappop(self._found)[2]

    def _find(self, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._found, (event.start, self._number, event))

    def _turn(self) -> None:
        """One turn of the engine's loop."""
        arrived, spans = self._front.take(self._now)
        for span in spans:
            self._find(span)
        for request in arrived:
            self.scheduler.add(request)
        held = self._faults.held_until(self._now) is not None
        launched = False
        if len(self._flights) < self._config.steps_in_flight and self.scheduler.has_work(held):
            launched = self._launch(held)
        if self._flights and not (launched and len(self._flights) < self._config.steps_in_flight):
            self._collect(self._flights.popleft())
        elif not launched and not self._flights:
            self._idle()

    def _launch(self, held: bool) -> bool:
        count = len(self.scheduler.running)
        parts = self.scheduler.schedule(self._now, held)
        self._work("schedule", count + len(parts))
        if not parts:
            return False
        self._work("prepare_batch", len(parts))
        stall = self._faults.strike("compile", self._now)
        if stall:
            self._spend("compile", stall, blocked=False)
        self._work("launch", len(parts))
        new = sum(part.tokens for part in parts)
        prefill = [part for part in parts if part.tokens > 1]
        decoding = [part for part in parts if part.tokens == 1]
        attended = sum(part.tokens * (part.context + part.tokens / 2) for part in prefill)
        seconds, compute = self._device.step(new, attended, sum(part.context for part in decoding))
        start = max(self._now, self._truth.device_free)
        for idle in self._truth.idle(start, start + seconds):
            self._find(idle)
        self._steps += 1
        again = sum(part.recomputed for part in prefill)
        tokens = sum(part.tokens for part in prefill)
        self._find(DeviceSpan(start, start + seconds, self._steps, tokens, again, len(decoding), compute))
        self._flights.append(_Flight(parts, start + seconds))
        return True

    def _collect(self, flight: _Flight) -> None:
        """Wait for the oldest step in flight and hand its tokens to the front end."""
        if flight.ends > self._now:
            self._spend("device_sync", flight.ends - self._now, blocked=True)
        stall = self._faults.strike("device_sync", self._now)
        if stall:
            self._spend("device_sync", stall, blocked=True)
        sampled = [part.request for part in flight.parts if part.samples]
        self._work("sample", len(sampled))
        self._report(sampled)

    def _report(self, sampled: list[Request]) -> None:
        self._reported = self._now
        for event in self._delivery.deliver(self._now, sampled):
            self._find(event)

    def _idle(self) -> None:
        """Nothing runs and nothing can be scheduled: sleep until something may have changed."""
        wake = self._front.next_event()
        waited_for = "demand"
        if self.scheduler.waiting:
            waited_for = "admission"
            wake = min(wake, self._reported + REPORT_PERIOD, self._faults.held_until(self._now) or wake)
        elif self._front.busy():
            waited_for = "tokenize"
        elif self._delivery.free > self._now:
            waited_for = "detokenize"
            wake = min(wake, self._delivery.free)
        wake = max(wake, self._now + 1e-4)
        self._find(HostSpan(self._now, wake, "engine", "idle", True))
        self._truth.note(self._now, wake, waited_for)
        self._now = wake
        if self.scheduler.waiting and self._now >= self._reported + REPORT_PERIOD:
            self._report([])

    def _work(self, phase: str, count: int) -> None:
        stall = self._faults.strike(phase, self._now)
        self._spend(phase, self._host.cost(phase, count) + stall, blocked=False)

    def _spend(self, phase: str, seconds: float, *, blocked: bool) -> None:
        end = self._now + seconds
        self._find(HostSpan(self._now, end, "engine", phase, blocked))
        self._truth.note(self._now, end, phase)
        self._now = end
