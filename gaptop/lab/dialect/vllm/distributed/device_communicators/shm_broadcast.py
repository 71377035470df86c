"""Named after vllm/distributed/device_communicators/shm_broadcast.py: how an engine and its workers wait.

vLLM spins for a second before it sleeps; here it sleeps at once, so that a demonstration leaves the cores alone.
"""

from __future__ import annotations

from gaptop.lab.dialect.zmq.sugar.poll import Poller


class SpinCondition:
    """Waits until the other side has written."""

    def __init__(self) -> None:
        self._poller = Poller()

    def wait(self, until_ns: int) -> None:
        """Sleep until ``until_ns``."""
        self._poller.poll(until_ns)


class MessageQueue:
    """The ring between the engine and its workers."""

    def __init__(self) -> None:
        self._condition = SpinCondition()

    def dequeue(self, until_ns: int) -> None:
        """Wait for the next message until ``until_ns``."""
        self.acquire_read(until_ns)

    def acquire_read(self, until_ns: int) -> None:
        """Wait for the ring's next block."""
        self._condition.wait(until_ns)
