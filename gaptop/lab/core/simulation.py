"""One run: a server's engines on one virtual clock, as a generator of events sorted by their start."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.delivery import Delivery
from gaptop.lab.core.device import Device
from gaptop.lab.core.disaggregated import Link, PrefillInlet
from gaptop.lab.core.engine import Engine
from gaptop.lab.core.events import Event
from gaptop.lab.core.executor import Executor, Here
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.host_thread import HostThread
from gaptop.lab.core.inlet import FrontInlet
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.model import HostModel
from gaptop.lab.core.ranks import Ranks
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.scheduler import Scheduler
from gaptop.lab.core.stalls import StallTruth, Untold
from gaptop.lab.core.truth import Timeline


class Simulation:
    """One run of ``scenario``; the same seed gives the same events. ``events`` may be called once."""

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        self._found: list[tuple[float, int, Event]] = []
        self._number = 0
        config = scenario.engine
        faults = Faults(scenario.faults, self._find)
        self._machine = Machine(config, scenario.device, HostModel(), faults, self._find)
        self._front = FrontEnd(scenario, seed, self._machine.host, faults)
        self.schedulers = [Scheduler(config)]
        if config.disaggregated:  # what reaches the decode device has its prompt computed
            self.schedulers.append(Scheduler(replace(config, chunked=True)))
        self.scheduler = self.schedulers[-1]
        self._delivery = Delivery(self._machine, self.schedulers, self._front)
        self._stalls = StallTruth()
        self._engines = self._disaggregated() if config.disaggregated else [self._engine()]

    def events(self, until: float | None = None) -> Iterator[Event]:
        """Events sorted by start, for ever or up to ``until`` (spans that cross it are yielded whole)."""
        engines = self._engines
        engine = engines[0]
        while until is None or engine.now < until:
            engine.turn()
            safe = engine.settled()
            if len(engines) > 1:
                safe = min(each.settled() for each in engines)
                engine = min(engines, key=lambda each: each.now)
            while self._found and self._found[0][0] <= safe:
                yield heapq.heappop(self._found)[2]
        for engine in engines:
            engine.finish()
        while self._found:
            yield heapq.heappop(self._found)[2]

    def _find(self, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._found, (event.start, self._number, event))

    def _engine(self) -> Engine:
        machine = self._machine
        ranks = machine.config.tensor_parallel_size
        devices = [
            Device(index, machine.model, machine.faults, machine.add, self._stalls.piece if index == 0 else _nobody)
            for index in range(ranks)
        ]
        executor: Executor
        timeline: Timeline
        if ranks == 1:
            executor, timeline = Here(machine, devices[0]), devices[0].truth
        else:
            executor, timeline = Ranks(machine, devices, self._stalls.piece), Timeline()
        thread = HostThread("engine", machine.faults, machine.add, timeline)
        inlet = FrontInlet(self._front, machine.add)
        return Engine(machine, thread, self.scheduler, executor, inlet, self._delivery, self._stalls)

    def _disaggregated(self) -> list[Engine]:
        """Prefill on device 0, decode on device 1."""
        machine = self._machine
        stalls = (Untold(), self._stalls)
        devices = [Device(n, machine.model, machine.faults, machine.add, stalls[n].piece) for n in (0, 1)]
        threads = [
            HostThread(name, machine.faults, machine.add, device.truth)
            for name, device in zip(("engine/prefill", "engine"), devices, strict=True)
        ]
        link = Link(machine, self.schedulers[0], self._front)
        first = Engine(
            machine,
            threads[0],
            self.schedulers[0],
            Here(machine, devices[0]),
            PrefillInlet(self._front, machine.add, link),
            self._delivery,
            stalls[0],
            link.send,
        )
        second = Engine(
            machine, threads[1], self.schedulers[1], Here(machine, devices[1]), link, self._delivery, stalls[1]
        )
        link.engines = (first, second)
        return [first, second]


def _nobody(start: float, end: float, waited_for: str) -> None:
    """One device tells for all ranks."""
