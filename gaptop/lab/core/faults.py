"""What goes wrong, and when: host stalls in a named phase, and times in which nobody is admitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gaptop.valleys.model import Cause

Place = Literal[
    "schedule", "prepare_batch", "launch", "sample", "detokenize", "tokenize", "device_sync", "compile", "hold"
]

CAUSES: dict[str, Cause] = {
    "schedule": "host_starvation",
    "prepare_batch": "host_starvation",
    "launch": "host_starvation",
    "sample": "host_starvation",
    "detokenize": "host_starvation",
    "tokenize": "host_starvation",
    "device_sync": "synchronisation",
    "compile": "compiling",
    "admission": "admission_stall",
    "demand": "no_demand",
}
"""The right verdict for a device that waits for this."""


@dataclass(frozen=True, slots=True)
class Fault:
    """At ``at`` (seconds into the cycle) the named place takes ``seconds`` longer, once.

    ``device_sync`` is a blocking wait with the device idle, ``compile`` happens at launch, ``hold`` admits nobody over
    [at, at + seconds). The others keep a core busy, so they are kept under 1.5 s: the live driver really burns it.
    """

    place: Place
    at: float
    seconds: float


class Faults:
    """The faults of the cycles begun so far, on the virtual clock. A fault strikes the first work of its place."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._script = tuple(faults)
        self._due: list[tuple[float, Fault]] = []

    def begin_cycle(self, base: float, period: float) -> None:
        """Arm the script for the cycle that starts at ``base``, and forget what never struck in the one before last."""
        self._due = [(when, fault) for when, fault in self._due if when + fault.seconds > base - period]
        self._due += [(base + fault.at, fault) for fault in self._script]

    def strike(self, place: str, now: float) -> float:
        """Seconds that ``place`` takes longer now (0 almost always)."""
        for index, (when, fault) in enumerate(self._due):
            if fault.place == place and when <= now:
                del self._due[index]
                return fault.seconds
        return 0.0

    def held_until(self, now: float) -> float | None:
        """The end of the hold that ``now`` lies in, or None."""
        for when, fault in self._due:
            if fault.place == "hold" and when <= now < when + fault.seconds:
                return when + fault.seconds
        return None
