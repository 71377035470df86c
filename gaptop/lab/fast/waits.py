"""How a thread waits: for work between two spans of the simulation, and on what it sleeps in the midst of them."""

from __future__ import annotations

from typing import Final

from gaptop.lab.fast.machine import Kind

WAIT: Final = ""
"""What a thread does between two spans of the simulation: it waits for work in its own way."""
HELD: Final = "held"
"""An engine that has requests and can schedule none of them: it tries again each millisecond."""
SPIN: Final = "spin"
"""A worker that waits for the engine and keeps its core."""
SPINNING: Final = frozenset({"device_sync", "copy"})
"""Waits for the device that keep their core where CUDA was not told to block (cudaDeviceScheduleSpin)."""


def waits_on(kind: Kind, phase: str) -> str:
    """What a sleeping thread sleeps on, as the kernel's wait channel tells it (a value of ``signals.WAITING_ON``)."""
    if phase in (WAIT, "idle", "await_requests"):
        return "futex" if kind in ("engine", "split_engine", "pool", "output") else "poll"
    return _ON.get(phase, "futex")


_ON: Final = {
    HELD: "sleep",
    "poll": "sleep",
    "device_sync": "poll",  # the driver waits for its interrupt in poll()
    "copy": "poll",
    "collective": "poll",
    "worker_wait": "poll",
    "kv_transfer": "poll",
    "load": "disk",
    "log": "pipe",
    "compile": "other",  # wait4 for a compiler
    "other": "other",
}
"""Anything else that sleeps in the midst of work waits for the interpreter's lock."""
