"""The faults of the cycles begun so far, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from gaptop.lab.core.events import Condition, Event, Limit
from gaptop.lab.core.faults import SPANS, Fault, strength

FOREVER: Final = float("inf")

CORES: Final = 8
"""Of the simulated host."""

SECONDARY: Final[dict[str, tuple[str, float]]] = {
    "throttle": ("throttled", 1.0),
    "oversubscription": ("runnable", CORES),
    "cotenant": ("foreign", 0.0),
    "stop": ("stopped", 0.0),
}
"""What other collectors read while a fault lasts (``Condition.what``), and how much of it for each unit of strength
(0: just 1)."""


class Lasting(NamedTuple):
    """A fault that lasts, with its times."""

    start: float
    end: float
    fault: Fault


class Faults:
    """``next_strike`` and ``first_lasting`` let callers pass by in the ordinary case: nothing is due before them."""

    def __init__(self, faults: Sequence[Fault], add: Callable[[Event], None]) -> None:
        self._script = tuple(faults)
        self._add = add
        self._due: list[tuple[float, Fault]] = []
        self._lasting: dict[str, list[Lasting]] = {}
        self.next_strike = FOREVER
        self.first_lasting = FOREVER

    def begin_cycle(self, base: float, period: float) -> None:
        """Arm the script for the cycle that starts at ``base``, and forget what never struck in the one before last."""
        self._due = [(when, fault) for when, fault in self._due if when + fault.seconds > base - period]
        for place, known in self._lasting.items():
            self._lasting[place] = [each for each in known if each.end > base - period]
        for fault in self._script:
            for at in _times(fault, period):
                self._arm(base + at, fault)
        self.next_strike = min((when for when, _ in self._due), default=FOREVER)
        self.first_lasting = min((each.start for known in self._lasting.values() for each in known), default=FOREVER)

    def strike(self, place: str, now: float) -> float:
        """Seconds that ``place`` takes longer now (0 almost always)."""
        fault = self.struck(place, now)
        return fault.seconds if fault is not None else 0.0

    def struck(self, place: str, now: float) -> Fault | None:
        """The fault that strikes ``place`` now: each strikes once."""
        if now < self.next_strike:
            return None
        for index, (when, fault) in enumerate(self._due):
            if fault.place == place and when <= now:
                del self._due[index]
                self.next_strike = min((when for when, _ in self._due), default=FOREVER)
                return fault
        return None

    def lasting(self, place: str, now: float) -> Lasting | None:
        """The fault of ``place`` that ``now`` lies in."""
        if now < self.first_lasting:
            return None
        for each in self._lasting.get(place, ()):
            if each.start <= now < each.end:
                return each
        return None

    def all_lasting(self, place: str, now: float) -> Iterator[Fault]:
        """Every fault of ``place`` that ``now`` lies in."""
        return (each.fault for each in self._lasting.get(place, ()) if each.start <= now < each.end)

    def within(self, place: str, start: float, end: float) -> Iterator[Lasting]:
        """The faults of ``place`` that meet [start, end), cut to it."""
        for each in self._lasting.get(place, ()):
            if each.start < end and start < each.end:
                yield Lasting(max(each.start, start), min(each.end, end), each.fault)

    def next_edge(self, now: float) -> float:
        """When a lasting fault next begins or ends, or an abort comes: what is waited for may change there."""
        edges = [edge for known in self._lasting.values() for each in known for edge in each[:2] if edge > now]
        edges += [when for when, fault in self._due if fault.place == "abort" and when > now]
        return min(edges, default=FOREVER)

    def _arm(self, start: float, fault: Fault) -> None:
        if fault.place not in SPANS:
            self._due.append((start, fault))
            return
        end = start + fault.seconds
        if end <= 0:
            return
        self._lasting.setdefault(fault.place, []).append(Lasting(start, end, fault))
        start = max(start, 0.0)
        if fault.place in SECONDARY:
            what, each = SECONDARY[fault.place]
            self._add(Condition(start, end, what, each * strength(fault) if each else 1.0))
        if fault.place == "power":
            self._add(Limit(start, end, fault.rank, "power"))
        elif fault.place == "thermal":
            self._add(Limit(start, end, fault.rank, "thermal"))


def _times(fault: Fault, period: float) -> Iterator[float]:
    """When the fault comes, relative to its cycle."""
    at = fault.at
    yield at
    while fault.every > 0 and at + fault.every < period:
        at += fault.every
        yield at
