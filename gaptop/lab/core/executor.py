"""Runs a step's host phases and its device work in the engine's own thread, as with one GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gaptop.lab.core.device import Device, Step
from gaptop.lab.core.events import Condition
from gaptop.lab.core.faults import Fault, strength
from gaptop.lab.core.host_thread import HostThread
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.truth import Note

Struck = Callable[[str, float], Fault | None]
"""The fault that strikes a place now."""


class Executor(Protocol):
    """``engine`` is the engine's thread, at the moment of the call; it is moved on."""

    def launch(self, engine: HostThread, parts: int, step: Step) -> float:
        """Prepare and launch ``step`` for ``parts`` requests; returns when the device will have finished it."""
        ...

    def collect(self, engine: HostThread, ends: float, sampled: int) -> None:
        """Wait for the step that ends at ``ends``, and handle its ``sampled`` tokens."""
        ...

    def free(self) -> float:
        """The earliest time at which one of the devices has no more work."""
        ...

    def untold(self, engine: HostThread) -> list[Note]:
        """What the first device has waited for since its last work."""
        ...

    def finish(self, engine: HostThread) -> None:
        """Tell what is still to be told up to the engine's time."""
        ...


class Here:
    """One device, the model in the engine's process."""

    def __init__(self, machine: Machine, device: Device) -> None:
        self._machine = machine
        self._device = device

    def launch(self, engine: HostThread, parts: int, step: Step) -> float:
        """See Executor."""
        prepare(self._machine, engine, parts, self._device, self._machine.faults.struck)
        return self._device.run(engine.now, step)

    def collect(self, engine: HostThread, ends: float, sampled: int) -> None:
        """See Executor."""
        gather(self._machine, engine, ends, sampled, self._machine.faults.struck)

    def free(self) -> float:
        """See Executor."""
        return self._device.free

    def untold(self, engine: HostThread) -> list[Note]:
        """See Executor."""
        return self._device.truth.between(self._device.free, engine.now)

    def finish(self, engine: HostThread) -> None:
        """See Executor."""
        self._device.finish(engine.now)


def prepare(machine: Machine, thread: HostThread, parts: int, device: Device, struck: Struck) -> None:
    """From the scheduled step to its launch, in ``thread``."""
    host = machine.host
    copy = machine.faults.lasting("copy", thread.now)
    if copy is not None:  # it waits for what the device still has to do, then copies
        thread.block("copy", max(thread.now, device.free) + strength(copy.fault))
    thread.work("prepare_batch", host.cost("prepare_batch", parts) + _longer("prepare_batch", thread, struck))
    compiled = struck("compile", thread.now)
    if compiled is not None:
        machine.add(Condition(thread.now, thread.now + compiled.seconds, "compilers", strength(compiled)))
        thread.work("compile", compiled.seconds)
    captured = struck("graph_capture", thread.now)
    if captured is not None:
        thread.work("compile", captured.seconds, "graph_capture")
    thread.work("launch", host.cost("launch", parts) + _longer("launch", thread, struck))


def gather(machine: Machine, thread: HostThread, ends: float, sampled: int, struck: Struck) -> None:
    """From the launched step to its tokens, in ``thread``."""
    thread.block("device_sync", ends)
    stall = _longer("device_sync", thread, struck)
    if stall:
        thread.block("device_sync", thread.now + stall)
    thread.work("sample", machine.host.cost("sample", sampled) + _longer("sample", thread, struck))


def _longer(place: str, thread: HostThread, struck: Struck) -> float:
    fault = struck(place, thread.now)
    return fault.seconds if fault is not None else 0.0
