"""What comes before the first packet to textual-serve: once in the life of a process, whichever part writes it."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Final

PRELUDE: Final = b"__GANGLION__\n"
"""Without it textual-serve takes what it started for no screen, and the page stays empty."""
_written = chain([PRELUDE], repeat(b""))


def prelude() -> bytes:
    """To be written before a packet: nothing where the packets have begun, among which it would be taken for one."""
    return next(_written)
