"""Small streams for the timeline's tests."""

from __future__ import annotations

from gaptop.recording.lines import Batch, Line, Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId

BUSY = SeriesId("s", "device.busy")
POWER = SeriesId("s", "device.power")
TOKENS = SeriesId("s", "tokens.decode")
SIGNALS = (BUSY.key, POWER.key, TOKENS.key)


def source(t: float = 0.0, period: float = 1.0, window: float | None = 0.2, lag: float = 0.0) -> Source:
    return Source(t, "s", "test", "device", {}, SIGNALS, period, window=window, lag=lag)


def batch(id: SeriesId, *readings: tuple[float, float | None]) -> Batch:
    return Batch(id.source, [t for t, _ in readings], {id.key: [value for _, value in readings]})


def timeline(*lines: Line) -> Timeline:
    made = Timeline()
    for line in lines:
        made.apply(line)
    return made


def steps(made: Timeline, id: SeriesId, start: float = -100.0, end: float = 1000.0) -> list[tuple[float, float, float]]:
    found = made.steps(id, start, end)
    return list(zip(found.start.tolist(), found.end.tolist(), found.value.tolist(), strict=True))
