"""A scenario: a server's settings, its device, its clients, and what goes wrong. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from gaptop.lab.core.events import Condition
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Load
from gaptop.lab.core.model import RTX_4090, DeviceModel, EngineConfig
from gaptop.valleys.model import Cause


@dataclass(frozen=True, slots=True)
class Scenario:
    """``says`` is one line for ``gaptop demo --list``; ``causes`` are the verdicts that its valleys deserve, in order.

    Everything repeats every ``period`` seconds; ``lead`` is how long before a cycle's time 0 its loads begin.
    ``live``: the live driver can play it with real threads. ``beside`` is what other collectors read of the machine
    although no request waits for it, and ``quota`` the CPU quota in cores (0: none): the fast driver shows both.
    """

    name: str
    says: str
    causes: tuple[Cause, ...]
    period: float
    loads: tuple[Load, ...]
    faults: tuple[Fault, ...] = ()
    lead: float = 0.0
    engine: EngineConfig = field(default_factory=EngineConfig)
    device: DeviceModel = RTX_4090
    live: bool = True
    beside: tuple[Condition, ...] = ()
    quota: float = 0.0
