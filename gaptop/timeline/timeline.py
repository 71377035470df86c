"""One clock: everything that a stream has said, as series, thread states and events that can be asked for any range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from gaptop.recording import lines
from gaptop.timeline.cover import cover
from gaptop.timeline.intake import Intake
from gaptop.timeline.intervals import Intervals
from gaptop.timeline.runs import Micros
from gaptop.timeline.stacks import Frame
from gaptop.timeline.threadset import thread_name
from gaptop.timeline.types import Columns, SeriesId, ShareColumns, SourceView, Span, StackTimes, Steps, ThreadId
from gaptop.timeline.units import MICRO, nearest
from gaptop_collectors.signals import ACTIVITIES

_HALF: Final = 0.5
_ASKED: Final = 10_000
"""Sums that are kept: a recording that was read whole has no next line, and may be looked at for hours."""


class Timeline(Intake):
    """Apply a stream's lines in order; ask anything in between. Pure: the same lines give the same answers.

    Times are seconds since the stream's start, kept to the microsecond. Absurd times and values, lines of sources that
    were never described, and readings that are not newer than the newest one of their series are ignored. What
    ended more than ``keep_seconds`` before the last tick is forgotten.
    """

    # What there is.

    @property
    def sources(self) -> Mapping[str, SourceView]:
        """Every source as known now."""
        if self._views is None:
            self._views = {id: source.view() for id, source in self._sources.items()}
        return self._views

    @property
    def events(self) -> Sequence[lines.Event]:
        """The newest events, oldest first."""
        return tuple(self._events)

    @property
    def recorded(self) -> Sequence[lines.Verdict]:
        """Verdicts that a snapshot brings along."""
        return tuple(self._recorded)

    def ids(self, signal: str, source: str | None = None) -> tuple[SeriesId, ...]:
        """Every series of that signal, all labels."""
        return self._store.ids(signal, source)

    def holes(self, source: str, start: float, end: float) -> Sequence[lines.Hole]:
        """Explicit holes of a source that share time with the range."""
        known = self._sources.get(source)
        return () if known is None else tuple(hole for hole in known.holes if hole.start < end and hole.end > start)

    # Series.

    def steps(self, id: SeriesId, start: float, end: float) -> Steps:
        """The intervals that intersect (start, end], whole."""
        series = self._store.get(id)
        if series is None:
            return Steps(np.zeros(0), np.zeros(0), np.zeros(0))
        pieces = series.ready(self._now)
        starts, ends, values = pieces.select(nearest(start), nearest(end))
        return Steps(starts / MICRO, ends / MICRO, series.shown(pieces.rates(starts, ends, values)))

    def columns(self, id: SeriesId, start: float, end: float, n: int) -> Columns:
        """A range in n equal columns. The cost does not depend on the length of the range or of the history."""
        edges = _edges(start, end, n)
        series = self._store.get(id)
        if series is None:
            nothing = np.full(len(edges) - 1, np.nan)
            covered = np.zeros(len(nothing))
            source = self._sources.get(id.source)
            if source is not None and id.key.partition("{")[0] not in source.info.signals:
                source = None
            return Columns(start, end, nothing, nothing, nothing, cover(source, None, edges, covered, self._now))
        low, high, integral, covered = series.ready(self._now).columns(edges)
        seen = covered > 0.0
        low, high = (series.shown(np.where(seen, bound, np.nan)) for bound in (low, high))
        mean = np.clip(integral / np.where(seen, covered, np.nan), low, high)
        return Columns(start, end, mean, low, high, cover(series.source, series, edges, covered, self._now))

    def value_at(self, id: SeriesId, t: float) -> float | None:
        """The value (a counter's rate) of the step that covers t."""
        moment = nearest(t)
        series = self._store.get(id)
        if series is None:
            return None
        pieces = series.ready(self._now)
        starts, ends, values = pieces.select(moment - 1, moment)
        return float(series.shown(pieces.rates(starts, ends, values))[0]) if len(values) else None

    def latest(self, id: SeriesId) -> tuple[float, float] | None:
        """Time and raw value of the newest reading, also for counters."""
        series = self._store.get(id)
        if series is None or series.newest is None:
            return None
        return series.newest[0] / MICRO, series.newest[1]

    def mean(self, id: SeriesId, start: float, end: float) -> float | None:
        """Time-weighted mean over what is covered; None where nothing is."""
        low, high, integral, covered = self._total(id, start, end)
        return min(max(integral / covered, low), high) if covered else None

    def extremes(self, id: SeriesId, start: float, end: float) -> tuple[float, float] | None:
        """Lowest and highest value over what is covered; None where nothing is."""
        low, high, _, covered = self._total(id, start, end)
        return (low, high) if covered else None

    def increase(self, id: SeriesId, start: float, end: float) -> float | None:
        """A counter's increment, linear at the edges; None where less than half of the range is covered."""
        _, _, integral, covered = self._total(id, start, end)
        return integral if covered and covered >= _HALF * (end - start) else None

    def coverage(self, id: SeriesId, start: float, end: float) -> float:
        """Share (0..1) of the range that observations cover."""
        return min(1.0, self._total(id, start, end)[3] / (end - start)) if end > start else 0.0

    def _total(self, id: SeriesId, start: float, end: float) -> tuple[float, float, float, float]:
        """Lowest and highest value, integral, and seconds covered; asked again, it is not added up again."""
        key = (id, start, end)
        known = self._totals.get(key)
        if known is None:
            if len(self._totals) >= _ASKED:
                self._totals.clear()
            known = self._totals[key] = self._add_up(id, start, end)
        return known

    def _add_up(self, id: SeriesId, start: float, end: float) -> tuple[float, float, float, float]:
        series = self._store.get(id)
        if series is None or not start < end:
            return 0.0, 0.0, 0.0, 0.0
        low, high, integral, covered = series.ready(self._now).total(nearest(start), nearest(end))
        if series.ratio:
            low, high = round(low, 7), round(high, 7)
        return low, high, integral, covered

    # Threads.

    def threads(self, source: str | None = None) -> tuple[ThreadId, ...]:
        """Threads whose stacks were seen."""
        return self._threads.ids(source)

    def thread_name(self, thread: ThreadId) -> str:
        """Its name as a process source gives it, else its tid."""
        own = self._sources.get(thread.source)
        for source in (*(() if own is None else (own,)), *self._sources.values()):
            name = thread_name(source.info.entity, thread.tid)
            if name is not None:
                return name
        return str(thread.tid)

    def spans(self, thread: ThreadId, start: float, end: float) -> Sequence[Span]:
        """States that share time with the range, whole; neighbours of one stack are one state."""
        return tuple(self._threads.select(thread, nearest(start), nearest(end)))

    def stack_times(self, thread: ThreadId, start: float, end: float) -> StackTimes:
        """Seconds by stack, and why the rest of the range is not told."""
        return self._threads.times(thread, self._sources.get(thread.source), nearest(start), nearest(end))

    def shares(self, thread: ThreadId, start: float, end: float) -> dict[str, float]:
        """Seconds by activity, over what was covered; activities that did not occur are left out."""
        seconds = self._threads.seconds(thread, _edges(start, end, 1))[0]
        return {name: float(took) for name, took in zip(ACTIVITIES, seconds, strict=True) if took > 0.0}

    def share_columns(self, thread: ThreadId, start: float, end: float, n: int) -> ShareColumns:
        """Seconds by activity, and seconds watched, in n equal columns."""
        edges = _edges(start, end, n)
        watched = self._threads.watched(thread.source, self._gaps(thread.source), edges)
        return ShareColumns(start, end, ACTIVITIES, self._threads.seconds(thread, edges), watched)

    def watched(self, source: str, start: float, end: float) -> float:
        """Seconds of the range in which a source's stack recorder was watching."""
        return float(self._threads.watched(source, self._gaps(source), _edges(start, end, 1))[0])

    def frames(self, stack: int) -> tuple[Frame, ...]:
        """Frames of a stack, outermost first; none where it is not known."""
        return self._threads.stacks.frames(stack)

    def _gaps(self, source: str) -> Intervals:
        known = self._sources.get(source)
        return Intervals() if known is None else known.gaps


@lru_cache(maxsize=16)
def _edges(start: float, end: float, n: int) -> Micros:
    """Where columns begin and end, to the microsecond, ascending also where end <= start. The lanes of one source ask
    for the same ones; they are read only."""
    first, last = nearest(start), nearest(end)
    share = np.arange(max(n, 0) + 1) / max(n, 1)
    edges: Micros = np.rint(first + (max(last, first) - first) * share).astype(np.int64)
    edges.flags.writeable = False
    return edges
