"""Named after vllm/v1/engine/detokenizer.py."""

from __future__ import annotations

from itertools import repeat
from time import monotonic_ns

LONG = 0.01
"""Seconds: more than the interpreter's switch interval."""
_COUNTED = 1_000_000


class IncrementalDetokenizer:
    """Turns token ids into text. ``holds_interpreter``: what takes long is one call that lets no other thread run."""

    def __init__(self, *, holds_interpreter: bool = False) -> None:
        self._bytes = b"abcdefgh" * 8
        self._a_second = 0
        self._late_ns = 0
        if holds_interpreter:
            begun = monotonic_ns()
            sum(repeat(1, _COUNTED))
            self._a_second = int(_COUNTED * 1e9 / (monotonic_ns() - begun))

    def update(self, seconds: float) -> None:
        """Busy for ``seconds``."""
        until_ns = monotonic_ns() + int(seconds * 1e9)
        if self._a_second and seconds > LONG:
            # What one call took too long, as on a core that others want, the next one takes less: nothing falls behind.
            until_ns -= self._late_ns
            sum(repeat(1, max(int(self._a_second * (until_ns - monotonic_ns()) / 1e9), 0)))
            self._late_ns = max(monotonic_ns() - until_ns, 0)
        while monotonic_ns() < until_ns:
            self._bytes.decode()
