"""The probe as a child process, and its lines as they come."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from gaptop.probe.supervisor import ProbeProcess
from gaptop.recording.lines import BadLine, Line, decode


class LiveLines:
    """The probe's raw lines. Use as a context manager; leaving it stops the probe, and what it says then is lost."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.probe = ProbeProcess(dict(config), self._queue.put)

    def __enter__(self) -> LiveLines:
        self.probe.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.probe.stop()

    def take(self, timeout: float) -> bytes | None:
        """The next raw line, or None when none came within ``timeout`` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None

    def rest(self) -> Iterator[bytes]:
        """Stop the probe, and everything that it had still to say: the recorders' last windows come now."""
        self.probe.stop()
        while (raw := self.take(0)) is not None:
            yield raw

    def ended(self) -> str | None:
        """Why no more lines will come; None while some may, those not yet taken included."""
        reason = self.probe.ended()
        return reason if reason is not None and self._queue.empty() else None


def decoded(raw: bytes) -> Line | None:
    """The line's message; None for what this version does not know or cannot read."""
    try:
        return decode(raw)
    except BadLine:
        return None
