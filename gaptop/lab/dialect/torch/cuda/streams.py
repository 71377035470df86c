"""Named after torch/cuda/streams.py."""

from __future__ import annotations

from time import monotonic_ns, sleep


class Event:
    """A device event that a host thread can wait for without using a core (``blocking=True`` in torch)."""

    def synchronize(self, until_ns: int) -> None:
        """Sleep until ``until_ns``."""
        left = until_ns - monotonic_ns()
        if left > 0:
            sleep(left / 1e9)
