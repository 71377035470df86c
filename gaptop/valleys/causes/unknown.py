"""unknown: nothing fits. An honest verdict; the exclusions are its content."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import WORKER_UNSEEN, not_told
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Finding

FLOOR: Final = 0.4
"""A cause must reach this to be named: "fits, and no more" is 0.45."""


def unknown(evidence: Evidence) -> Finding:
    unseen = []
    if not evidence.threads:
        unseen.append("threads not seen")
    elif critical(evidence).worker_unseen:
        unseen.append(WORKER_UNSEEN)
    if evidence.running is None:
        unseen.append(not_told(evidence, "scheduler"))
    if evidence.busy is None:
        unseen.append("device not seen")
    return Finding("unknown", FLOOR, "nothing fits", unseen=tuple(unseen))
