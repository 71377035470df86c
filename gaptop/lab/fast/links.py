"""Bytes over the links between the GPUs: what the ranks' reductions send in each step, and in a collective that is slow
because much is sent."""

from __future__ import annotations

from typing import Final

from gaptop.lab.core.events import DeviceSpan

PCIE_RATE: Final = 11e9
NVLINK_RATE: Final = 150e9
"""Bytes a second that a long transfer reaches each way."""

REDUCTIONS: Final = 2 * 32
"""In one step: two for each layer of the simulated model."""
TOKEN_BYTES: Final = 2 * 4096
"""Of one token's hidden state, in bf16."""


class Link:
    """One device's, each way. Spans come in the order of their starts, readings in the order of their times."""

    def __init__(self, ranks: int, rate: float) -> None:
        """``rate``: bytes a second of a long transfer."""
        # A ring all-reduce sends each byte 2 (n - 1) / n times.
        self._each = 0.0 if ranks < 2 else 2 * (ranks - 1) / ranks * REDUCTIONS * TOKEN_BYTES
        self._rate = rate
        self._due: list[tuple[float, float, float]] = []
        self._read = float("-inf")
        self.sent = 0.0

    def add(self, span: DeviceSpan) -> None:
        """What the span sends. A rank that spins sends nothing."""
        if span.kind == "step" and self._each:
            tokens = span.prefill_tokens + span.decode_tokens
            self._due.append((span.start, span.end, tokens * self._each / (span.end - span.start)))
        elif span.kind == "transfer":
            self._due.append((span.start, span.end, self._rate))

    def read(self, now: float) -> float:
        """Bytes sent by ``now``."""
        since, self._read = self._read, now
        for start, end, rate in self._due:
            self.sent += rate * max(0.0, min(end, now) - max(start, since))
        self._due = [item for item in self._due if item[1] > now]
        return self.sent
