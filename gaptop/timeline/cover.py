"""Why a column without data has none."""

from __future__ import annotations

import numpy as np

from gaptop.timeline.runs import Micros
from gaptop.timeline.series import Series
from gaptop.timeline.source import SourceState
from gaptop.timeline.types import Cover, Floats, States


def cover(source: SourceState | None, series: Series | None, edges: Micros, covered: Floats, now: int) -> States:
    """The state of each column. A column that also reaches into what is pending counts as pending."""
    states = np.full(len(edges) - 1, Cover.NOTHING, np.uint8)
    if source is None:
        return states
    left, right = edges[:-1], edges[1:]
    begin = source.first if series is None else series.begin()
    pending = source.frontier if series is None else series.pending()
    for _, end in source.gaps.within(pending, pending + 1):
        pending = end
    states[(right > begin) & (left < pending)] = Cover.HOLE
    states[(right > max(pending, begin)) & (left < now)] = Cover.PENDING
    for a, b in source.gaps.within(int(edges[0]), int(edges[-1])):
        states[(left >= a) & (right <= b)] = Cover.HOLE
    states[covered > 0.0] = Cover.DATA
    return states
