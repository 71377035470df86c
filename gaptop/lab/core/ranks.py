"""Tensor-parallel ranks: each has a worker process and a device, and no rank can finish a step before the slowest."""

from __future__ import annotations

from gaptop.lab.core.device import Device, Piece, Step
from gaptop.lab.core.events import HostSpan
from gaptop.lab.core.executor import Struck, gather, prepare
from gaptop.lab.core.faults import Fault, strength
from gaptop.lab.core.host_thread import HostThread
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.truth import Note


class Ranks:
    """The engine's thread hands each step to all workers and waits for their answer in ``worker_wait``.

    A rank whose device begins early spins in the step's first collective until the last one has begun: busy, at low
    power. ``piece`` is told of such waits once for all ranks.
    """

    def __init__(self, machine: Machine, devices: list[Device], piece: Piece) -> None:
        self._machine = machine
        self._devices = devices
        self._piece = piece
        self._threads = [
            HostThread(f"worker/{device.index}", machine.faults, machine.add, device.truth) for device in devices
        ]

    def launch(self, engine: HostThread, parts: int, step: Step) -> float:
        """See Executor."""
        late = self._machine.faults.struck("straggler", engine.now)
        struck = self._shared()
        for thread, device in zip(self._threads, self._devices, strict=True):
            self._catch_up(engine, thread, engine.now)
            prepare(self._machine, thread, parts, device, struck)
            if late is not None and (device.index - late.rank) % len(self._devices) < strength(late):
                _comes_late(self._machine, thread, late)
        engine.timeline.forget(min(thread.now for thread in self._threads))
        if late is not None and not late.spins:
            last = max(thread.now for thread in self._threads)
            for thread in self._threads:
                thread.block("collective", last)
        return self._run(step)

    def collect(self, engine: HostThread, ends: float, sampled: int) -> None:
        """See Executor."""
        struck = self._shared()
        for thread in self._threads:
            gather(self._machine, thread, ends, sampled, struck)
        engine.block("worker_wait", max(thread.now for thread in self._threads), "device_sync")

    def free(self) -> float:
        """See Executor."""
        return min(device.free for device in self._devices)

    def untold(self, engine: HostThread) -> list[Note]:
        """See Executor."""
        first = self._devices[0]
        return [
            *first.truth.between(first.free, engine.now),
            *engine.timeline.between(max(self._threads[0].now, first.free), engine.now),
        ]

    def finish(self, engine: HostThread) -> None:
        """See Executor."""
        for thread, device in zip(self._threads, self._devices, strict=True):
            self._catch_up(engine, thread, engine.now)
            device.finish(engine.now)

    def _shared(self) -> Struck:
        """What strikes one worker strikes all of them."""
        known: dict[str, Fault | None] = {}

        def struck(place: str, now: float) -> Fault | None:
            if place not in known:
                known[place] = self._machine.faults.struck(place, now)
            return known[place]

        return struck

    def _catch_up(self, engine: HostThread, thread: HostThread, until: float) -> None:
        """The worker had nothing to do until then: its device waited for what the engine's thread did."""
        for start, end, waited_for in engine.timeline.between(thread.now, until):
            thread.rest(start, waited_for, polling=self._machine.config.busy_poll)
            thread.rest(end, waited_for, polling=self._machine.config.busy_poll)

    def _run(self, step: Step) -> float:
        """The step on all devices, from the last rank's beginning on; returns its end."""
        starts = [
            device.after_others(max(thread.now, device.free), step.seconds)
            for thread, device in zip(self._threads, self._devices, strict=True)
        ]
        start = max(starts)
        if start > min(starts):
            self._piece(min(starts), start, "straggler")
        ends = []
        for device, own in zip(self._devices, starts, strict=True):
            if own < start:
                device.spin(own, start, "collective", step.number)
            seconds, clock, limit = device.speed(start, step)
            ends.append(device.work(start, step, seconds, clock, limit))
        end = max(ends)
        slow = self._machine.faults.strike("collective", start)
        wedge = self._machine.faults.struck("wedge", start)
        wedged, power = (0.0, 0.0) if wedge is None else (wedge.seconds, wedge.strength)
        if slow:
            self._piece(end, end + slow, "collective")
        if wedged:
            self._piece(end + slow, end + slow + wedged, "wedge")
        for device, own in zip(self._devices, ends, strict=True):
            if own < end:
                device.spin(own, end, "collective", step.number)
            if slow:
                device.spin(end, end + slow, "transfer", step.number)
            if wedged:
                device.spin(end + slow, end + slow + wedged, "wedge", step.number, power)
        return end + slow + wedged


def _comes_late(machine: Machine, thread: HostThread, late: Fault) -> None:
    if late.phase != "run_queue":
        thread.work(late.phase, late.seconds, "straggler")
        return
    end = thread.now + late.seconds
    machine.add(HostSpan(thread.now, end, thread.name, "prepare_batch", False, waits_core=True))
    thread.timeline.note(thread.now, end, "straggler")
    thread.now = end
