"""What whole per cents leave open: where the true duty cycle of a window lies, given its reading. Pure.

Rounding, as a source states it: ``nearest`` (within half a point), ``down`` (in [v, v + 1)), ``percent`` (whole, but
not known which way) and "" (not rounded). A reading of 0 or 100 stays as it is: an idle or a full device reads so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gaptop.timeline.types import Floats

WHOLE: Final = 0.005
"""Closer than this to 0 or 100 % a window is not partial: there is nothing to round."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """In shares of a window. A partial reading v stands for v + ``shift`` busy, give or take ``error``.

    ``full``: idle that a reading of 100 % may hide; ``zero``: work that a reading of 0 may hide. ``above`` and
    ``below``: how far the truth may lie over and under a partial reading.
    """

    shift: float
    error: float
    full: float
    zero: float
    above: float
    below: float


_DOUBTS: Final = {
    "": Doubt(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "nearest": Doubt(0.0, 0.005, 0.005, 0.005, 0.005, 0.005),
    "down": Doubt(0.005, 0.005, 0.0, 0.01, 0.01, 0.0),
    "percent": Doubt(0.0025, 0.0075, 0.005, 0.01, 0.01, 0.005),
}


def doubt(rounding: str) -> Doubt:
    """What a way of rounding leaves open; a word that is not known is taken for ``percent``."""
    return _DOUBTS.get(rounding, _DOUBTS["percent"])


def partial(values: Floats) -> Floats:
    """1 for each window that was neither empty nor full, else 0."""
    return np.where((values > WHOLE) & (values < 1.0 - WHOLE), 1.0, 0.0)


def centred(values: Floats, rounding: str) -> Floats:
    """The middle of what each reading stands for."""
    return values + doubt(rounding).shift * partial(values)


def most_idle(values: Floats, rounding: str) -> Floats:
    """The largest idle share that each reading leaves open."""
    known = doubt(rounding)
    inside = partial(values) > 0.0
    below = np.where(inside, known.below, np.where(values >= 1.0 - WHOLE, known.full, 0.0))
    return np.clip(1.0 - values + below, 0.0, 1.0)
