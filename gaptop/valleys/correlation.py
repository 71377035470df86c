"""Spearman's rank correlation with an interval. Pure.

By numpy: scipy takes 143 MB installed for what are ten lines here, and its ``spearmanr`` gives no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from gaptop.timeline.types import Floats

FEWEST: Final = 8
"""Pairs under which nothing is said."""

LAGS: Final = 5
"""Neighbours are looked at over a fifth of the series (Pyper and Peterman 1998)."""


def ranks(values: Sequence[float]) -> Floats:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, index, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    shared = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(shared[index], np.float64)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation in -1..1 of equally many values; None where one of both does not vary."""
    a, b = (_centred(ranks(values)) for values in (first, second))
    scale = math.sqrt(float((a * a).sum() * (b * b).sum()))
    return None if scale == 0.0 else min(1.0, max(-1.0, float((a * b).sum()) / scale))


def partial(first: Sequence[float], second: Sequence[float], given: Sequence[float]) -> float | None:
    """Rank correlation of what equal values of the third leave (Kendall, Biometrika 32, 1942, on Spearman's rho); None
    where nothing is left."""
    both = spearman(first, second)
    one, other = spearman(first, given), spearman(second, given)
    if both is None or one is None or other is None:
        return both
    left = (1.0 - one * one) * (1.0 - other * other)
    return None if left < 1e-9 else min(1.0, max(-1.0, (both - one * other) / math.sqrt(left)))


def independent(first: Sequence[float], second: Sequence[float]) -> float:
    """As how many independent pairs the series (in the order of time) count, at most their number.

    Two series that both drift go together by chance more often than shuffled ones (Pyper and Peterman, Can. J. Fish.
    Aquat. Sci. 55, 1998, equation 1, here on the ranks).
    """
    count = len(first)
    a, b = (_centred(ranks(values)) for values in (first, second))
    alike = sum(
        (count - lag) / count * _with_itself(a, lag) * _with_itself(b, lag) for lag in range(1, count // LAGS + 1)
    )
    return count / max(1.0, 1.0 + 2.0 * alike)


def interval(rho: float, count: float, confidence: float) -> tuple[float, float]:
    """Where the true rank correlation lies, by Fisher's z with the variance (1 + rho²/2) / (n - 3) (Bonett and Wright,
    Psychometrika 65, 2000). All of -1..1 where so few pairs say nothing."""
    if count <= 4.0:
        return -1.0, 1.0
    # Ranks that agree wholly are no proof that all do: halfway to the next value that they could have had.
    most = 1.0 - 6.0 / (count**3 - count)
    inner = min(most, max(-most, rho))
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt((1.0 + inner * inner / 2) / (count - 3.0))
    middle = math.atanh(inner)
    return math.tanh(middle - reach), math.tanh(middle + reach)


def _centred(values: Floats) -> Floats:
    return np.asarray(values - values.mean(), np.float64)


def _with_itself(centred: Floats, lag: int) -> float:
    whole = float((centred * centred).sum())
    return 0.0 if whole == 0.0 else float((centred[lag:] * centred[:-lag]).sum()) / whole
