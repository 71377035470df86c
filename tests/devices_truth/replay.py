"""What gaptop says of a device whose true work is known: stand-in library, real binding, collector, stream, analysis.

Everything from the driver's windows to the report is the code that runs beside a live GPU, in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from gaptop.recording.lines import Header, Hole, Line, Source, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Steps
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop.valleys.report import build
from tests.devices_truth.recording import Rebuilt
from tests.fakes.nvml import virtual
from tests.fakes.nvml.build import NoCompiler

FOR_EVER = 1e9


class Kept(NamedTuple):
    """What the timeline has of one device, and what was said of it."""

    timeline: Timeline
    told: list[Source]
    holes: list[Hole]

    @property
    def busy(self) -> Steps:
        """Each window."""
        return self.timeline.steps(self.timeline.ids("device.busy")[0], 0.0, FOR_EVER)


class Judged(NamedTuple):
    """One device, analysed alone: in a real server devices stop together, here each has gaps of its own."""

    kept: Kept
    assessment: Assessment
    report: dict[str, Any]


def streams(seconds: float, *devices: Mapping[str, Any], **how: Any) -> list[list[Line]]:
    """The stream of each device, alone, after so many seconds (``how``: see virtual.run). Skips without a compiler."""
    try:
        lines = list(virtual.stream(virtual.run(seconds, *devices, **how)))
    except NoCompiler as error:
        pytest.skip(str(error))
    sources = dict.fromkeys(line.id for line in lines if isinstance(line, Source) and line.kind == "device")
    return [[line for line in lines if isinstance(line, Header | Tick) or _of(line) == one] for one in sources]


def kept(lines: Iterable[Line]) -> Kept:
    found = Kept(Timeline(None), [], [])
    for line in lines:
        found.timeline.apply(line)
        _note(found, line)
    return found


def judge(lines: Iterable[Line]) -> Judged:
    found = Kept(Timeline(None), [], [])
    analyst = Analyst(found.timeline)
    for line in lines:
        found.timeline.apply(line)
        analyst.apply(line)
        _note(found, line)
    assessment = analyst.finish()
    return Judged(found, assessment, build(found.timeline, assessment, window=None))


def _note(found: Kept, line: Line) -> None:
    if isinstance(line, Source):
        found.told.append(line)
    elif isinstance(line, Hole):
        found.holes.append(line)


def _of(line: Line) -> str:
    named: object = getattr(line, "src", None) or getattr(line, "id", "")
    return str(named)


def played(built: Rebuilt) -> tuple[float, dict[str, Any]]:
    """Seconds and stand-in device that show a recording's windows; its first one begins at 0."""
    series: Sequence[tuple[float, float]] = [(one.percent / 100, one.watts) for one in built.windows]
    return len(series) * built.period, {"series": series, "window_ms": built.period * 1000}
