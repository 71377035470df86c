"""Everything that one frame is drawn from. Immutable but for the timeline, which does not change while drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.tui import figures
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.sweep import Places
from gaptop.tui.text import clean
from gaptop.tui.view import View
from gaptop.valleys.cost import seconds_lost
from gaptop.valleys.model import Assessment, Valley


@dataclass(frozen=True, slots=True)
class Scene:
    """``valley`` is the one that the detail explains; ``chosen`` says that the user picked it. ``cursor`` is a time.
    ``selected`` is a stretch of time. ``fact`` is the selected one of the numbers that speak for its cause.
    ``speed``: a recording plays so many times as fast as it was made. None: none.
    """

    timeline: Timeline
    sources: Mapping[str, SourceView]
    assessment: Assessment
    view: View
    now: float
    cursor: float | None
    valley: Valley | None
    chosen: bool
    glyphs: Glyphs
    start: datetime | None
    zone: tzinfo | None
    fact: int | None = None
    selected: tuple[float, float] | None = None
    sweeping: bool = False
    speed: float | None = None

    @property
    def places(self) -> Places:
        """Where columns stand on screen. All else here counts columns from the oldest one."""
        return Places(self.view, self.sweeping)

    def clean(self, text: object) -> str:
        """Text from outside, safe to draw."""
        return clean(str(text), self.glyphs.ascii)

    @property
    def none_found(self) -> str:
        """Where there is no valley at all."""
        return "No valley at all." if self.assessment.ended else "No valley so far."

    def clock(self, t: float, digits: int = 0) -> str:
        return figures.clock(self.start, t, self.zone, digits)

    def marks(self) -> tuple[int | None, int | None, int | None]:
        """Columns on screen (from the left) of the explained valley's start and end, and of the cursor."""
        return (
            self._on_screen(self.valley.start_s if self.valley else None),
            self._on_screen(self.valley.end_s if self.valley else None),
            self._on_screen(self.cursor),
        )

    def ranged(self) -> range:
        """The columns on screen (from the left) that are selected."""
        if self.selected is None:
            return range(0)
        first = self.view.column_at(self.selected[0]) - self.view.first
        after = self.view.column_at(self.selected[1]) - self.view.first
        return range(max(0, first), min(self.view.columns, after))

    def rests_on(self, signals: tuple[str, ...]) -> bool:
        """Whether the explained verdict's numbers (of them the selected one) come from one of these signals."""
        facts = () if self.valley is None else self.valley.verdict.evidence
        if self.fact is not None:
            facts = facts[self.fact : self.fact + 1]
        return any(fact.signal.partition("{")[0] in signals for fact in facts)

    def _on_screen(self, t: float | None) -> int | None:
        return None if t is None or not self.view.shows(t) else self.view.column_at(t) - self.view.first


def explained(assessment: Assessment, view: View, chosen: str | None, *, going: bool = True) -> Valley | None:
    """The valley that the detail is about: the chosen one, else an open one, else the costliest in view.

    Preferring cost to novelty keeps the detail readable while small dips come and go. Where the stream is not ``going``
    on any more, the one that was open at its end is no news either.
    """
    valleys = assessment.valleys
    for valley in valleys:
        if valley.id == chosen:
            return valley
    for valley in reversed(valleys):
        if going and valley.end_s is None and assessment.now - valley.start_s >= 1.0:
            return valley
    start, end = view.start, view.end
    seen = [v for v in valleys if v.start_s < end and (v.end_s is None or v.end_s > start)]
    best = valleys[-1] if valleys and not seen else None
    return max(seen, key=lambda valley: cost(valley, assessment.now), default=best)


def cost(valley: Valley, now: float) -> tuple[float, float]:
    """Seconds lost, then the later one."""
    length = (now if valley.end_s is None else valley.end_s) - valley.start_s
    return seconds_lost(valley.verdict.cause, valley.kind, valley.idle_s, length), valley.start_s
