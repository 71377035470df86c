"""What the analysis of one tick costs, while nothing is open and while a valley is."""

from __future__ import annotations

import statistics
import time

from gaptop.cli.session import classifier
from gaptop.recording.lines import Tick
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from tests.benchmarks.hour import lines
from tests.benchmarks.table import Row, told

_SECONDS = 300
_SETTLED = 60.0
_TICKS = 4


def main() -> list[Row]:
    """Rows for the table. Open: until its verdict is final."""
    timeline = Timeline(classifier())
    analyst = Analyst(timeline)
    idle: list[float] = []
    opened: list[float] = []
    for line in lines(_SECONDS):
        timeline.apply(line)
        begun = time.thread_time()
        said = analyst.apply(line)
        if not isinstance(line, Tick) or line.t < _SETTLED:
            continue
        valleys = analyst.assessment.valleys if said is None else said.valleys
        (opened if valleys and not valleys[-1].final else idle).append(time.thread_time() - begun)
    each = statistics.fmean(idle)
    busy = statistics.fmean(opened) if opened else 0.0
    found = len(analyst.finish().valleys)
    return [
        told("analysis: share of a core, nothing open / valley open", f"{_TICKS * each:.2%} / {_TICKS * busy:.2%}"),
        told("analysis: one tick, nothing open / valley open", f"{each * 1e3:.2f} / {busy * 1e3:.2f} ms"),
        told("analysis: valleys found in five minutes with ten", str(found)),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
