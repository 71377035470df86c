"""What the screen knows: the timeline, the analysis, and how the feed is doing. No Textual here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from gaptop.recording.lines import Event, Health, Line, Self, Source
from gaptop.timeline.timeline import Timeline
from gaptop.tui.events import PROBE_DIED
from gaptop.tui.feed import Feed
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop.valleys.report import valley_json

Classify = Callable[[Sequence[tuple[str, str, int]]], str]


class Analysis(Protocol):
    """What the screen needs of ``valleys.analyst.Analyst``."""

    def apply(self, line: Line) -> Assessment | None: ...

    def finish(self) -> Assessment: ...


_CHUNK: Final = 64
"""Lines between two looks at the clock."""
_SILENT: Final = 1.0
"""Seconds without a line after which a live feed counts as silent: four missed ticks."""


class Session:
    """Applies the feed's lines in bounded portions. ``clock`` (seconds) only judges our own work and silence."""

    def __init__(
        self,
        feed: Feed,
        classify: Classify | None,
        analyse: Callable[[Timeline], Analysis] = Analyst,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.feed = feed
        self.timeline = Timeline(classify)
        self.analyst = analyse(self.timeline)
        self.assessment = Assessment(now=0.0)
        self.healths: dict[str, Health] = {}
        self.ended: str | None = None
        self.lines = 0
        self.probe_share: float | None = None
        """Share of a core that the probe with its children took lately; None before two readings."""
        self.news = ""
        """What happened to the measuring itself, as a sentence; whoever tells it empties it. Not of a recording."""
        self._clock = clock
        self._heard = clock()
        self._cost: Self | None = None

    @property
    def now(self) -> float:
        """The newest moment of the stream."""
        return self.timeline.now

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where something is told."""
        shown = self.timeline.range
        return (shown.start, shown.end) if shown else (0.0, self.now)

    @property
    def headline(self) -> tuple[object, ...]:
        """Changes whenever a verdict should be seen at once; the sentence about it, which counts seconds, may wait."""
        if not self.assessment.valleys:
            return (self.ended,)
        newest = self.assessment.valleys[-1]
        return self.ended, newest.id, newest.end_s is None, newest.final, newest.verdict.cause

    @property
    def silence(self) -> float:
        """Seconds for which a live feed has said nothing (0 while it talks or where it need not)."""
        waited = self._clock() - self._heard
        return waited if self.feed.live and self.ended is None and waited > _SILENT else 0.0

    @property
    def states(self) -> Mapping[str, Health]:
        """The newest health of each source; once a live feed has ended, nothing is measured any more."""
        if not self.feed.live or self.ended is None:
            return self.healths
        return {src: replace(health, state="ended") for src, health in self.healths.items()}

    def pump(self, seconds: float) -> bool:
        """Apply what is there for at most about so long; true when more is waiting."""
        deadline = self._clock() + seconds
        while True:
            lines = self.feed.drain(_CHUNK)
            if not lines:
                self._look_for_the_end()
                return False
            for line in lines:
                self.timeline.apply(line)
                self.assessment = self.analyst.apply(line) or self.assessment
                if isinstance(line, Health):
                    self._hear_of(line)
                elif isinstance(line, Source):
                    self.healths.pop(line.collector, None)
                elif isinstance(line, Self):
                    self._spend(line)
                elif isinstance(line, Event) and line.what == PROBE_DIED and self.feed.live:
                    self.news = line.says
            self.lines += len(lines)
            self._heard = self._clock()
            if self._heard >= deadline:
                return True

    def verdicts(self, start: float, end: float) -> list[Mapping[str, Any]]:
        """The valleys that touch [start, end] in the report's form, for a snapshot."""
        return [
            valley_json(self.timeline, valley)
            for valley in self.assessment.valleys
            if valley.start_s <= end and (valley.end_s is None or valley.end_s >= start)
        ]

    def _hear_of(self, health: Health) -> None:
        """A collector that "ended" under its own name has only given way to its sources."""
        if health.src == health.collector and health.state == "ended":
            self.healths.pop(health.src, None)
        else:
            self.healths[health.src] = health

    def _look_for_the_end(self) -> None:
        if self.ended is None and (reason := self.feed.ended()) is not None:
            self.ended = reason
            self.assessment = self.analyst.finish()

    def _spend(self, cost: Self) -> None:
        before, self._cost = self._cost, cost
        if before is not None and cost.t > before.t and cost.cpu_seconds >= before.cpu_seconds:
            self.probe_share = (cost.cpu_seconds - before.cpu_seconds) / (cost.t - before.t)
