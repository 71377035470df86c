"""Named after zmq/sugar/poll.py."""

from __future__ import annotations

import select
from time import monotonic_ns


class Poller:
    """Waits for a message."""

    def __init__(self) -> None:
        self._none = select.poll()

    def poll(self, until_ns: int) -> None:
        """Sleep until ``until_ns``."""
        left = until_ns - monotonic_ns()
        if left > 0:
            self._none.poll(left / 1e6)
