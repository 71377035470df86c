"""One engine's loop on a virtual clock.

The engine's thread schedules, prepares and launches a step, then waits for the oldest step in flight and hands its
tokens on; the device runs launched steps one after the other. With two steps in flight the host works while the device
does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from gaptop.lab.core.delivery import Delivery
from gaptop.lab.core.device import Step
from gaptop.lab.core.events import Condition
from gaptop.lab.core.executor import Executor
from gaptop.lab.core.faults import strength
from gaptop.lab.core.host_thread import HostThread
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.requests import Request
from gaptop.lab.core.scheduler import Part, Scheduler
from gaptop.lab.core.stalls import StallTruth
from gaptop.lab.core.truth import Note

REPORT_PERIOD: Final = 0.05
"""While nothing can be scheduled, the engine still tells its state this often (seconds)."""

LONG: Final = 0.05
"""A request that has been in the front end for so long (seconds) is held up there."""

DISK: Final = 1.5e9
"""Bytes a second that an adapter is read with: an NVMe drive's order of magnitude."""

STEP: Final = ("schedule", "prepare_batch", "launch", "sample")
"""Host phases that a step adds to the device's time where the two do not overlap."""


class _Flight(NamedTuple):
    parts: list[Part]
    ends: float


class Inlet(Protocol):
    """Where an engine's requests come from. Times are the engine's own."""

    def take(self, now: float) -> list[Request]:
        """Requests that have come by ``now``."""
        ...

    def next_event(self, now: float) -> float:
        """When something may come; never later than that."""
        ...

    def held_by(self, now: float) -> tuple[str, float] | None:
        """What the next request waits for before it comes here, and until when; None where none is on its way."""
        ...

    def oldest(self) -> float:
        """Since when that request has been under way."""
        ...


class Engine:
    """``turn`` is one turn of its loop; ``now`` is how far it has come. ``sampled`` is told of each step's tokens."""

    def __init__(
        self,
        machine: Machine,
        thread: HostThread,
        scheduler: Scheduler,
        executor: Executor,
        inlet: Inlet,
        delivery: Delivery,
        stalls: StallTruth,
        after: Callable[[float, list[Request]], None] = lambda now, sampled: None,
    ) -> None:
        self._machine = machine
        self._config = machine.config
        self._faults = machine.faults
        self._thread = thread
        self.scheduler = scheduler
        self._executor = executor
        self._inlet = inlet
        self._delivery = delivery
        self._stalls = stalls
        self._after = after
        self._flights: deque[_Flight] = deque()
        self._steps = 0
        self._reported = 0.0
        self._looked = 0.0
        self.asleep = False

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._thread.now

    def settled(self) -> float:
        """Nothing that is still to be found starts before this: not before the last look at what came in, the open
        interval of the requests' progress, or the device's last end."""
        return min(self._looked, self._stalls.since, self._executor.free())

    def finish(self) -> None:
        """Tell what is still to be told."""
        self._executor.finish(self._thread)

    def turn(self) -> None:
        """One turn of the engine's loop."""
        self._looked = self._thread.now
        for request in self._inlet.take(self._looked):
            self.scheduler.add(request)
        if self._thread.now >= self._faults.next_strike:
            self._strikes()
        held = self._held() != ""
        depth = self._config.steps_in_flight
        launched = False
        if len(self._flights) < depth and self.scheduler.has_work(held):
            launched = self._launch(held)
        self.asleep = not launched and not self._flights
        if self.asleep:
            self._idle()
        elif self._flights and not (launched and len(self._flights) < depth):
            self._collect(self._flights.popleft())

    def _held(self) -> str:
        """Why nobody may be admitted now ("": somebody may), as a key of ``CAUSES``."""
        now = self._thread.now
        if now < self._faults.first_lasting:
            return ""
        hold, remote = self._faults.lasting("hold", now), self._faults.lasting("remote_kv", now)
        # Of two that hold, the one that ends last is what is waited for: without the other nothing would come sooner.
        if hold is not None and (remote is None or hold.end >= remote.end):
            # Deferred requests wait for what they were deferred for; behind the places that they take others wait.
            alone = hold.fault.strength and len(self.scheduler.waiting) <= self._places()
            return "deferred" if alone else "admission"
        return "remote_kv" if remote is not None else ""

    def _strikes(self) -> None:
        """What hits the engine's thread whatever it does, once it has something to do."""
        if not self.scheduler.running:
            return
        thread, struck = self._thread, self._faults.struck
        for phase in ("gc", "log", "grammar"):
            fault = struck(phase, thread.now)
            if fault is not None:
                thread.work(phase, fault.seconds)
        fault = struck("adapter", thread.now)
        if fault is not None:
            end = thread.now + fault.seconds
            self._machine.add(Condition(thread.now, end, "read_bytes", DISK))
            thread.block("load", end)
        fault = struck("paging", thread.now)
        if fault is not None:
            end = thread.now + fault.seconds
            self._machine.add(Condition(thread.now, end, "major_faults", strength(fault)))
            thread.block("schedule", end, "paging")
        if struck("hang_up", thread.now) is not None:
            self._delivery.hang_up(thread.now)
        fault = struck("abort", thread.now)
        if fault is not None:
            self._delivery.abort(thread.now, thread.now + fault.seconds)
            self._stalls.stopped()

    def _launch(self, held: bool) -> bool:
        scheduler, thread, host = self.scheduler, self._thread, self._machine.host
        running = len(scheduler.running)
        parts = scheduler.schedule(thread.now, held)
        if self._config.single_process and self._faults.lasting("gil", thread.now) is not None:
            thread.block("schedule", self._delivery.free, "detokenize")
        cost = host.cost("schedule", running + len(parts))
        thread.work("schedule", cost + self._faults.strike("schedule", thread.now))
        if scheduler.moved:
            seconds = self._machine.model.moving(scheduler.moved, self._machine.model.host_bandwidth)
            thread.block("copy", thread.now + seconds, "swap")
        if not parts:
            return False
        self._stalls.runs(thread.now)
        self._flights.append(_Flight(parts, self._executor.launch(thread, len(parts), self._step(parts))))
        return True

    def _step(self, parts: list[Part]) -> Step:
        model, ranks = self._machine.model, self._config.tensor_parallel_size
        new = prefill = again = 0
        attended = 0.0
        read = 0
        decoding = 0
        for part in parts:
            tokens = part.tokens
            new += tokens
            if tokens > 1:
                prefill += tokens
                again += part.recomputed
                attended += tokens * (part.context + tokens / 2)
            else:
                decoding += 1
                read += part.context
        seconds, compute = model.step(new, attended, read)
        plain = model.step(decoding, 0.0, read)[0] if prefill else seconds
        self._steps += 1
        return Step(
            self._steps,
            prefill,
            again,
            decoding,
            model.on_ranks(seconds, ranks),
            compute,
            model.on_ranks(plain, ranks),
        )

    def _collect(self, flight: _Flight) -> None:
        """Wait for the oldest step in flight and hand its tokens to the front end."""
        parts = [part for part in flight.parts if part.samples]
        self._executor.collect(self._thread, flight.ends, len(parts))
        sampled = [part.request for part in parts if not part.request.aborted]
        if sampled or not any(part.request.aborted for part in flight.parts):
            self._report(sampled)
        if sampled:
            self._after(self._thread.now, sampled)

    def _report(self, sampled: list[Request]) -> None:
        now, running = self._thread.now, self.scheduler.running
        self._reported = now
        before = len(running)
        self._delivery.deliver(now, sampled, self.scheduler, self._deferred(now))
        for stall in self._stalls.message(now, len(sampled), before, len(running), self):
            self._machine.add(stall)

    def _deferred(self, now: float) -> int:
        """Requests that are held back for another reason than room."""
        scheduler = self.scheduler
        if self._held() == "remote_kv":
            return len(scheduler.waiting)
        hold = self._faults.lasting("hold", now)
        if hold is None or not hold.fault.strength:
            return 0
        return min(len(scheduler.waiting), self._places())

    def _places(self) -> int:
        """How many more requests the sequence limit allows to run."""
        return self._config.max_num_seqs - len(self.scheduler.running)

    def usual(self, running: int) -> float:
        """See ``stalls.Server``."""
        machine, config = self._machine, self._config
        held = self.scheduler.pool.used * config.block_size
        device = machine.model.on_ranks(machine.model.step(running, 0.0, held)[0], config.tensor_parallel_size)
        if config.steps_in_flight > 1:
            return device
        return device + sum(machine.host.cost(phase, running) for phase in STEP)

    def untold(self) -> list[Note]:
        """See ``stalls.Server``."""
        return self._executor.untold(self._thread)

    def too_few(self) -> str:
        """See ``stalls.Server``."""
        now = self._thread.now
        if self.scheduler.waiting:
            return self._held() or self.scheduler.kept_waiting_by(False)
        coming = self._inlet.held_by(now)
        if coming is not None and now - self._inlet.oldest() > LONG:
            return coming[0]
        return self._answers(now) if self._delivery.behind(now, LONG) else "demand"

    def _answers(self, now: float) -> str:
        """Why clients have no answer yet, as a key of ``CAUSES``."""
        return "detokenize" if self._faults.lasting("stop", now) is None else "stopped"

    def _idle(self) -> None:
        """Nothing runs and nothing can be scheduled: sleep until something may have changed."""
        thread = self._thread
        now = thread.now
        wake = min(self._inlet.next_event(now), self._faults.next_edge(now))
        phase = "idle"
        coming = self._inlet.held_by(now)
        if self.scheduler.waiting:
            waited_for = self._held() or self.scheduler.kept_waiting_by(False)
            phase = "kv_transfer" if waited_for == "remote_kv" else "idle"
            wake = min(wake, self._reported + REPORT_PERIOD)
        elif coming is not None:
            waited_for, until = coming
            wake = min(wake, until)
        elif self._delivery.behind(now):
            waited_for = self._answers(now)
            wake = min(wake, self._delivery.free)
        else:
            waited_for = "stale_gauge" if self._delivery.stale else "demand"
        wake = max(wake, now + 1e-4)
        thread.rest(wake, waited_for, polling=self._config.busy_poll, phase=phase)
        if self.scheduler.waiting and wake >= self._reported + REPORT_PERIOD:
            self._report([])
