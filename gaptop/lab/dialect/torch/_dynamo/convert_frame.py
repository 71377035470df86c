"""Named after torch/_dynamo/convert_frame.py."""

from __future__ import annotations

from time import monotonic_ns


def _compile(until_ns: int) -> None:
    """Compile something, over and over, until ``until_ns``."""
    while monotonic_ns() < until_ns:
        compile("def kernel(x):\n    return [each * 2 + 1 for each in x if each]\n", "<kernel>", "exec")
