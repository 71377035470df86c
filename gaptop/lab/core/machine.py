"""What every part of one simulation works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.events import Event
from gaptop.lab.core.model import DeviceModel, EngineConfig, HostModel


class Machine(NamedTuple):
    """``add`` takes each event as it becomes known."""

    config: EngineConfig
    model: DeviceModel
    host: HostModel
    faults: Faults
    add: Callable[[Event], None]
