"""One pure function a cause, in the order in which equal scores are decided.

The device, the compiler, a wedge and an artefact come before the engine is blamed; ``no_demand`` is the last real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gaptop.valleys.causes.admission_stall import admission_stall
from gaptop.valleys.causes.artefact import artefact
from gaptop.valleys.causes.cache_pressure import cache_pressure
from gaptop.valleys.causes.compiling import compiling
from gaptop.valleys.causes.device_limit import device_limit
from gaptop.valleys.causes.external_wait import external_wait
from gaptop.valleys.causes.host_starvation import host_starvation
from gaptop.valleys.causes.no_demand import no_demand
from gaptop.valleys.causes.prefill_interference import prefill_interference
from gaptop.valleys.causes.stalled_busy import stalled_busy
from gaptop.valleys.causes.synchronisation import synchronisation
from gaptop.valleys.causes.unknown import unknown
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Finding

RULES: Final[tuple[Callable[[Evidence], Finding], ...]] = (
    device_limit,
    compiling,
    stalled_busy,
    artefact,
    cache_pressure,
    prefill_interference,
    external_wait,
    synchronisation,
    host_starvation,
    admission_stall,
    no_demand,
    unknown,
)
