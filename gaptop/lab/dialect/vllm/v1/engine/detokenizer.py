"""Named after vllm/v1/engine/detokenizer.py."""

from __future__ import annotations

from time import monotonic_ns


class IncrementalDetokenizer:
    """Turns token ids into text."""

    def __init__(self) -> None:
        self._bytes = b"abcdefgh" * 8

    def update(self, seconds: float) -> None:
        """Busy for ``seconds``."""
        until_ns = monotonic_ns() + int(seconds * 1e9)
        while monotonic_ns() < until_ns:
            self._bytes.decode()
