"""Times in which a source delivers nothing: what it would have told is lost, and a hole is declared for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gaptop.lab.fast.view import Outage
from gaptop.recording.lines import Batch, Health, Hole, Line, Source, Spans, Tick, Watermark, times

_AGAIN: Final = 5.0
"""Seconds between two holes of a source that goes on failing."""
_WHY: Final = {
    "nvml": "the GPU does not answer",
    "metrics": "no usable answer",
    "threads": "no sampling between two recorders",
    "proc": "gaptop's own sampler was late",
}


@dataclass(slots=True)
class _Gap:
    """Of one source; ``told`` is up to where it was declared."""

    outage: Outage
    source: str
    told: float = field(init=False)
    over: bool = False

    def __post_init__(self) -> None:
        self.told = self.outage[1]


class Outages:
    """A filter over a stream's lines. An outage is the beginning of sources' ids, and its start and end."""

    def __init__(self, outages: Sequence[Outage]) -> None:
        self._outages = outages
        self._gaps: list[_Gap] = []

    def filter(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines that are left, and the holes."""
        for line in lines:
            if isinstance(line, Source):
                self._know(line.id)
            elif isinstance(line, Batch | Spans | Watermark):
                if self._lost(line):
                    continue
            elif isinstance(line, Health):
                line = self._fails(line)
            elif isinstance(line, Tick):
                yield from self._declare(line.t)
            yield line

    def _know(self, source: str) -> None:
        known = {(gap.source, gap.outage) for gap in self._gaps}
        new = [item for item in self._outages if source.startswith(item[0]) and (source, item) not in known]
        self._gaps += [_Gap(item, source) for item in new]

    def _lost(self, line: Batch | Spans | Watermark) -> bool:
        """Whether the line tells of a time in which its source was out; it is then lost as a whole."""
        span = times(line)
        return span is not None and any(
            gap.source == line.src and span[0] < gap.outage[2] and span[1] > gap.outage[1] for gap in self._gaps
        )

    def _fails(self, line: Health) -> Health:
        out = any(gap.source == line.src and gap.outage[1] <= line.t < gap.outage[2] for gap in self._gaps)
        return replace(line, state="failing") if out else line

    def _declare(self, now: float) -> Iterator[Hole]:
        for gap in self._gaps:
            _, start, end = gap.outage
            if gap.over or now < start:
                continue
            until = min(now, end)
            gap.over = now >= end
            if until > gap.told and (gap.over or gap.told == start or until - gap.told >= _AGAIN):
                why = _WHY.get(gap.source.partition("/")[0], "nothing came from it")
                yield Hole(gap.source, gap.told, until, why)
                gap.told = until
