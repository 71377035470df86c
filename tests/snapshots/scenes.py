"""Small timelines and the scenes drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from gaptop.recording.lines import Batch, Line, Source, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.tui.glyphs import UNICODE
from gaptop.tui.scene import Scene
from gaptop.tui.view import LADDER, View, usual_view
from gaptop.valleys.model import Assessment

SERVER = Source(
    0.0, "metrics/http://h:1", "engines.vllm", "server", {"url": "http://h:1", "pids": [210]}, ("sched.running",), 0.5
)


def told(*lines: Line) -> Timeline:
    timeline = Timeline(None)
    for line in lines:
        timeline.apply(line)
    return timeline


def scene_of(timeline: Timeline, columns: int = 60, said: Assessment | None = None, view: View | None = None) -> Scene:
    view = view or usual_view(columns, timeline.now)
    said = said or Assessment(timeline.now)
    return Scene(timeline, timeline.sources, said, view, timeline.now, None, None, False, UNICODE, None, UTC)


def columns_of(seconds: float, count: int, first: int = 0) -> View:
    return View(LADDER.index(seconds), count, first + count - 1, False)


def readings(source: Source, busy: Sequence[float | None], step: float = 0.2) -> list[Line]:
    times = [round((index + 1) * step, 6) for index in range(len(busy))]
    lines: list[Line] = [Batch(source.id, [t], {"device.busy": [v]}) for t, v in zip(times, busy, strict=True)]
    return [*lines, Watermark(source.id, times[-1])]
