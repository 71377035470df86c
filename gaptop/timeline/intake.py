"""Taking a stream in, line by line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from gaptop.recording import lines
from gaptop.timeline.source import SourceState
from gaptop.timeline.stacks import Classify
from gaptop.timeline.store import Store, trim
from gaptop.timeline.threadset import ThreadSet
from gaptop.timeline.types import SeriesId, SourceView
from gaptop.timeline.units import LARGEST, MICRO, micros, nearest

_SOURCES: Final = 2_000
_EVENTS: Final = 4_096
_VERDICTS: Final = 10_000
_PIECES: Final = 12_000_000
"""Pieces that all series and threads may have memory for (about 105 MB); beyond, the largest lose their older half."""
_EVICT_EVERY: Final = 10 * MICRO
_TRIM_EVERY: Final = 1_000_000


class Intake:
    """What a stream has said so far, ready to be asked."""

    def __init__(self, classify: Classify | None = None, keep_seconds: float = 3600.0) -> None:
        self.header: lines.Header | None = None
        self.now = 0.0
        """The last tick."""
        self.self_cost: lines.Self | None = None
        self.range: lines.Range | None = None
        self.has_rules = classify is not None
        """Whether stacks are classified here; without rules every stack's activity is ``other``."""
        self.health: dict[str, lines.Health] = {}
        """The newest health line of each source, and of collectors that have no source yet."""
        self._totals: dict[tuple[SeriesId, float, float], tuple[float, float, float, float]] = {}
        """What was asked of series since the newest line: mean, extremes, increase and coverage are one sum."""
        self._views: Mapping[str, SourceView] | None = None
        """Every source as known since the newest line, once that was asked for."""
        self._recorded: list[lines.Verdict] = []
        self._events: deque[lines.Event] = deque(maxlen=_EVENTS)
        self._store = Store()
        self._sources = self._store.sources
        self._threads = ThreadSet(classify)
        self._keep = nearest(keep_seconds)
        self._now = 0
        self._evicted = 0
        self._grown = 0
        self._apply: Mapping[type, Callable[[Any], None]] = {
            lines.Header: self._on_header,
            lines.Source: self._on_source,
            lines.Batch: self._on_batch,
            lines.Frames: self._threads.frames,
            lines.Spans: self._on_spans,
            lines.Hole: self._on_hole,
            lines.Clock: lambda line: None,
            lines.Event: lambda line: self._events.append(line),
            lines.Health: self._on_health,
            lines.Self: self._on_self,
            lines.Tick: self._on_tick,
            lines.Watermark: self._on_watermark,
            lines.Range: self._on_range,
            lines.Verdict: self._on_verdict,
        }

    def apply(self, line: lines.Line) -> None:
        """Take in one line, as ``decode`` checked it: types are right, values may be anything."""
        self._totals.clear()
        self._views = None
        self._apply[type(line)](line)

    def _on_header(self, line: lines.Header) -> None:
        # Every gzip member repeats it; the first one counts.
        if self.header is None:
            self.header = line

    def _on_source(self, line: lines.Source) -> None:
        appeared = micros(line.t) or 0
        known = self._sources.get(line.id)
        if known is None:
            if len(self._sources) < _SOURCES:
                self._sources[line.id] = SourceState(line, appeared)
                self._sources[line.id].health = self.health.get(line.id)
            return
        known.first = min(known.first, appeared)
        known.describe(line)
        reached = known.frontier if known.watermark is not None else max(self._now, known.frontier)
        for series in known.series.values():
            series.redescribed(reached)

    def _on_batch(self, line: lines.Batch) -> None:
        source = self._sources.get(line.src)
        if source is None:
            return
        times = [micros(t) for t in line.t]
        stated = [t for t in times if t is not None]
        if not stated:
            return
        source.newest = max(stated) if source.newest is None else max(source.newest, *stated)
        known = source.series
        for key, column in line.values.items():
            series = known.get(key) or self._store.add(source, key)
            if series is None:
                continue
            for t, value in zip(times, column, strict=False):
                if t is not None:
                    # This also keeps out NaN: it is no observation.
                    series.read(t, value if value is not None and -LARGEST <= value <= LARGEST else None)
        self._grown += len(times) * len(line.values)
        if self._grown > _TRIM_EVERY:
            self._trim()

    def _on_spans(self, line: lines.Spans) -> None:
        source = self._sources.get(line.src)
        if source is not None:
            self._threads.spans(line, source)
            self._grown += len(line.tid)

    def _on_hole(self, line: lines.Hole) -> None:
        source = self._sources.get(line.src)
        start, end = micros(line.start), micros(line.end)
        if source is not None and start is not None and end is not None and source.add_hole(line, start, end):
            for series in source.series.values():
                series.hole(start)
            self._threads.hole(line.src, start)

    def _on_health(self, line: lines.Health) -> None:
        if line.src == line.collector and line.state == "ended":
            # It has given way to its sources, or has nothing to measure here.
            self.health.pop(line.src, None)
            return
        if line.src in self.health or len(self.health) < _SOURCES:
            self.health[line.src] = line
        source = self._sources.get(line.src)
        if source is not None:
            source.health = line

    def _on_self(self, line: lines.Self) -> None:
        self.self_cost = line

    def _on_tick(self, line: lines.Tick) -> None:
        now = micros(line.t)
        if now is None or now <= self._now:
            return
        self.now, self._now = line.t, now
        if now - self._evicted >= _EVICT_EVERY:
            self._evicted = now
            self._store.drop_before(now - self._keep)
            self._threads.drop_before(now - self._keep)
            self._trim()

    def _on_watermark(self, line: lines.Watermark) -> None:
        source = self._sources.get(line.src)
        reached = micros(line.t)
        if source is not None and reached is not None:
            source.watermark = reached if source.watermark is None else max(source.watermark, reached)

    def _on_range(self, line: lines.Range) -> None:
        self.range = line

    def _on_verdict(self, line: lines.Verdict) -> None:
        if len(self._recorded) < _VERDICTS:
            self._recorded.append(line)

    def _trim(self) -> None:
        self._grown = 0
        series = [(item.pieces.size, item.shed) for item in self._store.all()]
        threads = [(item.states.size, item.shed) for item in self._threads.all()]
        trim(series + threads, _PIECES)
