"""What goes on around a server without hurting it: each of these is ordinary on real hosts, and no verdict may come of
it. None has a truth of its own: where one does cost time, the simulation says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gaptop.lab.core.armed import CORES
from gaptop.lab.core.cpu import QUOTA_PERIOD
from gaptop.lab.core.events import Condition
from gaptop.lab.core.faults import Fault
from gaptop.lab.score.server import Server


@dataclass
class Beside:
    """What is drawn for one case. ``own_calls`` in seconds of the stream, all else in those of the simulation."""

    start: float
    until: float
    says: list[str] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    own_calls: list[tuple[float, float]] = field(default_factory=list)
    quota: float = 0.0


Decoy = Callable[[Random, Server, Beside], None]


def _stretch(rng: Random, found: Beside, low: float, high: float) -> tuple[float, float]:
    """A stretch of that length (seconds) somewhere in the case."""
    start = rng.uniform(found.start, found.until)
    return start, start + rng.uniform(low, high)


def _tenant(rng: Random, server: Server, found: Beside) -> None:
    """A notebook, or a second server without load, holds memory on the device: for ever, or from some moment on."""
    start = 0.0 if rng.random() < 0.6 else rng.uniform(found.start, found.until)
    found.conditions.append(Condition(start, found.until, "foreign_idle", float(rng.choice((1, 1, 2)))))


def _builds(rng: Random, server: Server, found: Beside) -> None:
    """Somebody else's build (ninja with some compilers): no child of the server, but its cores are busy."""
    start, end = _stretch(rng, found, 5.0, 30.0)
    found.conditions.append(Condition(start, end, "neighbours", rng.uniform(1.0, 0.7 * CORES)))


def _own_compilers(rng: Random, server: Server, found: Beside) -> None:
    """The server compiles in worker processes what it does not need yet, as inductor's pool does, and steps go on."""
    start, end = _stretch(rng, found, 1.0, 15.0)
    found.conditions.append(Condition(start, end, "compilers", float(rng.choice((1, 1, 2, 4)))))


def _page_faults(rng: Random, server: Server, found: Beside) -> None:
    """Libraries and files that are touched for the first time: some faults that read storage, by threads that nobody
    waits for."""
    for _ in range(rng.randint(1, 6)):
        start, end = _stretch(rng, found, 0.1, 2.0)
        found.conditions.append(Condition(start, end, "major_faults", 10 ** rng.uniform(0.0, 1.9)))


def _power_cap(rng: Random, server: Server, found: Beside) -> None:
    """A lowered power limit, as most hosted cards have: its reason is active all the time, at nine tenths of the clock
    (a B200 under its cap: 1580 of 1965 MHz and 15 % slower, which is more)."""
    clock, seconds = round(rng.uniform(0.9, 0.95), 3), found.until + 30.0
    found.faults += [Fault("power", 0.0, seconds, clock, rank=rank) for rank in range(server.ranks)]


def _neighbours(rng: Random, server: Server, found: Beside) -> None:
    """Other containers use the cores that the server does not."""
    steady = rng.random() < 0.5
    start, end = (0.0, found.until) if steady else _stretch(rng, found, 1.0, 20.0)
    found.conditions.append(Condition(start, end, "neighbours", rng.uniform(0.1, 0.75) * CORES))


def _access_log(rng: Random, server: Server, found: Beside) -> None:
    """The front end writes its log in bursts of some milliseconds: each request has a line or two."""
    seconds, every = round(10 ** rng.uniform(-2.5, -1.2), 4), round(rng.uniform(0.5, 6.0), 3)
    found.faults.append(Fault("access_log", found.start + rng.uniform(0.0, every), seconds, every=every))


def _kept_alive(rng: Random, server: Server, found: Beside) -> None:
    """A router's pool keeps its connections open between requests."""
    found.conditions.append(Condition(0.0, found.until, "connections", float(rng.randint(1, 2 * server.count))))


def _hang_ups(rng: Random, server: Server, found: Beside) -> None:
    """Now and then a user closes the window, or a router's time is up."""
    every = round(rng.uniform(1.5, 15.0), 3)
    found.faults.append(Fault("hang_up", found.start + rng.uniform(0.0, every), 0.0, every=every))


def _own_calls(rng: Random, server: Server, found: Beside) -> None:
    """A call of gaptop's own takes long, and its rounds come late: the ring still holds what passed meanwhile."""
    for _ in range(rng.randint(1, 3)):
        start = rng.uniform(2.0, found.until - found.start - 2.0)
        found.own_calls.append((round(start, 3), round(start + 10 ** rng.uniform(-1.5, 0.1), 3)))


DECOYS: Final[dict[str, tuple[float, Decoy]]] = {
    "idle co-tenant": (0.2, _tenant),
    "somebody's build": (0.15, _builds),
    "own compilers": (0.12, _own_compilers),
    "page faults": (0.3, _page_faults),
    "power cap": (0.1, _power_cap),
    "neighbours": (0.25, _neighbours),
    "access log": (0.2, _access_log),
    "idle connections": (0.3, _kept_alive),
    "hang-ups": (0.2, _hang_ups),
    "own slow calls": (0.12, _own_calls),
}
"""Each with the share of the cases that have it."""

QUOTA: Final = 0.5
"""Share of the cases with a CPU quota: a container has one about as often as not."""

THROTTLES: Final = 0.5
"""Share of those with one that are throttled a little."""


def beside(rng: Random, server: Server, start: float, until: float, faults: Sequence[Fault]) -> Beside:
    """What goes on beside the conditions, whose ``faults`` those are, over [start, until)."""
    found = Beside(start, until)
    for name, (share, decoy) in DECOYS.items():
        if rng.random() < share:
            decoy(rng, server, found)
            found.says.append(name)
    _quota(rng, server, found, any(fault.place == "throttle" for fault in faults))
    return found


def _quota(rng: Random, server: Server, found: Beside, throttled: bool) -> None:
    """A quota that is never met has room for the server's own threads; one that throttles may be any."""
    limited = rng.random() < QUOTA
    room = server.ranks + 2.0
    if throttled:
        found.quota = rng.choice((1.0, 1.5, 2.0, 3.0, 4.0))
    elif limited:
        found.quota = rng.choice((room, room + 1.5, 2 * room))
    if not found.quota:
        return
    found.says.append(f"quota {found.quota:g}")
    if rng.random() < THROTTLES:
        found.says.append("short throttles")
        for _ in range(rng.randint(1, 5)):
            _short_throttle(rng, found)


def _short_throttle(rng: Random, found: Beside) -> None:
    """A burst of helper threads eats up the quota for some periods. Either the runqueues of other cores are held (the
    engine's still has its slice), or everything is, for so few milliseconds that a step in flight hides them."""
    start = round(rng.uniform(found.start, found.until), 3)
    seconds = round(QUOTA_PERIOD * rng.randint(1, 8), 3)
    if rng.random() < 0.5:
        found.conditions.append(Condition(start, start + seconds, "throttled", rng.uniform(0.05, 0.6)))
    else:
        found.faults.append(Fault("throttle", start, seconds, round(rng.uniform(0.02, 0.08), 3)))
