"""Which valley hurts most: one order for the report and the screen."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.model import Cause, ValleyKind

NO_LOSS: Final[tuple[Cause, ...]] = ("no_demand", "artefact")
"""Causes that are nobody's fault."""


def seconds_lost(cause: str, kind: ValleyKind | str, idle: float | None, length: float) -> float:
    """Device-seconds that a valley cost; a standstill of progress counts whole, whatever its device's utilisation."""
    if cause in NO_LOSS:
        return 0.0
    return idle if kind == "utilisation" and idle is not None else length
