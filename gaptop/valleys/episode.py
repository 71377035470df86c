"""One valley while it is being found and judged: its members, its verdict so far, its final form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.causes.rule import EACH_FAST, FEW, SOME, each_ratio
from gaptop.valleys.detect import Dip
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.hot_paths import hot_paths
from gaptop.valleys.member import Member
from gaptop.valleys.model import Cause, Segment, Valley, ValleyKind, Verdict
from gaptop.valleys.progress import Stall
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope
from gaptop.valleys.segments import segments, slices
from gaptop.valleys.verdict import judge, verdict
from gaptop.valleys.windows import Measure, measure, misplaced, reach, span
from gaptop.valleys.witnesses import counters_fell, of_progress, of_utilisation

MIXED: Final = 1 / 3
"""Other causes' part of what the main one cost from which on one name for the whole is no sure verdict."""

SHORTEST: Final = 0.05
"""Seconds of evidence at least, however short a valley is so far."""

NO_COST: Final = 0.95
"""Progress above this share of the usual cost nothing: it is within the readings' scatter."""

ROUNDING: Final = 0.0075
"""What whole per cents may leave open of a standstill's idle seconds, whichever way they were made."""


@dataclass(slots=True)
class Episode:
    """A valley of one scope: dips of one or several devices that began together, or a stall of a server."""

    id: str
    kind: ValleyKind
    scope: Scope
    server: str
    first_start: float
    window: float
    before: tuple[tuple[float, float], ...]
    dips: list[Dip] = field(default_factory=list)
    stall: Stall | None = None
    in_tokens: bool = True
    judged_at: float = -1.0
    valley: Valley | None = None
    final: bool = False
    refuted: bool = False
    """The ordinary time before it was no faster, or asked for more: what looked usual to the detector was not."""

    @property
    def start(self) -> float:
        return self.stall.start if self.stall is not None else min(dip.start for dip in self.dips)

    @property
    def end(self) -> float | None:
        """None while any member is open."""
        if self.stall is not None:
            return self.stall.end
        ends = [dip.end for dip in self.dips]
        known = [end for end in ends if end is not None]
        return max(known) if len(known) == len(ends) else None

    def reached(self) -> float:
        """Up to where it is known to last: its end, or the last low reading so far."""
        end = self.end
        if end is not None:
            return end
        if self.stall is not None:
            return self.stall.last
        return max(reach(dip) for dip in self.dips)

    def judge(self, timeline: Timeline, *, final: bool) -> Valley:
        """The valley as known now; cut into slices once it is ``final``, i.e. nothing will change it."""
        measures = [self._measure(timeline, dip) for dip in self.dips]
        start, end = self._bounds(measures)
        stretch = self._stretch(start, max(end, start + SHORTEST))
        before = Reference(timeline, self.before)
        evidence = gather(timeline, self.scope, stretch, before)
        progress = evidence.progress_ratio
        self.refuted = self.kind == "progress" and (
            (progress is not None and progress >= NO_COST) or _less_demand(evidence)
        )
        agreeing = self._agreeing(timeline, evidence, measures)
        idle = self._idle_of(measures) if measures else self._idle(timeline, stretch)
        said = self._verdict(timeline, stretch, before, evidence, len(agreeing) > 1, final)
        self.judged_at = timeline.now
        self.final = final
        start_error, end_error = self._errors(timeline)
        self.valley = Valley(
            id=self.id,
            kind=self.kind,
            devices=tuple(item.label for item in self.scope.devices if item.source in stretch.devices),
            start_s=start,
            end_s=None if self.end is None else end,
            start_error_s=start_error,
            end_error_s=end_error,
            depth_ratio=self._depth(),
            idle_s=None if idle is None else idle[0],
            idle_error_s=None if idle is None else idle[1],
            confirmed=len(agreeing) > 1,
            tokens_lost=self._tokens(evidence, said.cause),
            final=final,
            verdict=said,
            longest_gap_s=_longest(measures),
            agreeing=agreeing,
            stacks=hot_paths(timeline, self.scope, start, end) if final else (),
            members=self._members(measures),
            server=self.server if self.scope.metrics else "",
        )
        return self.valley

    def _measure(self, timeline: Timeline, dip: Dip) -> Measure:
        ids = timeline.ids("device.busy", dip.source)
        view = timeline.sources.get(dip.source)
        off = misplaced(view.info if view is not None else None)
        return measure(timeline.steps(ids[0], *span(dip, self.window)), dip, self.window, off)

    def _members(self, measures: list[Measure]) -> tuple[Member, ...]:
        labels = {device.source: device.label for device in self.scope.devices}
        return tuple(
            Member(
                labels[dip.source],
                dip.source,
                *item.bounds,
                idle_s=item.idle,
                rounding=dip.rounding,
                windows=item.longest is not None,
            )
            for dip, item in zip(self.dips, measures, strict=True)
            if dip.source in labels
        )

    def _bounds(self, measures: list[Measure]) -> tuple[float, float]:
        if self.stall is not None or self.end is None:
            return self.start, self.reached()
        return min(item.start for item in measures), max(item.end for item in measures)

    def _errors(self, timeline: Timeline) -> tuple[float, float]:
        """Of both edges: a window (or the time between two readings), holes, and what is unsure of the clock."""
        if self.stall is not None:
            return self.stall.start_error, self.stall.end_error
        views = timeline.sources
        clock = max(views[dip.source].info.error if dip.source in views else 0.0 for dip in self.dips)
        return max(dip.start_error for dip in self.dips) + clock, max(dip.end_error for dip in self.dips) + clock

    def _stretch(self, start: float, end: float) -> Stretch:
        if self.stall is not None:
            sources = tuple(device.source for device in self.scope.devices)
            return Stretch("progress", start, end, sources, None)
        sources = tuple(dip.source for dip in self.dips)
        level = sum(dip.level for dip in self.dips) / len(self.dips)
        return Stretch("utilisation", start, end, sources, level)

    def _verdict(
        self,
        timeline: Timeline,
        stretch: Stretch,
        before: Reference,
        evidence: Evidence,
        confirmed: bool,
        final: bool,
    ) -> Verdict:
        finding = judge(evidence)[0]
        best = finding.cause
        parts: tuple[Segment, ...] = ()
        if final:
            seen = evidence.stacks_seen
            parts = segments(timeline, self.scope, stretch, before, finding, evidence.still, stacks=seen)
        seconds: dict[Cause, float] = {}
        for part in parts:
            cost = self._cost(timeline, replace(stretch, start=part.start_s, end=part.end_s), before)
            seconds[part.cause] = seconds.get(part.cause, 0.0) + cost
        main = max(seconds, key=lambda cause: (seconds[cause], cause == best)) if seconds else best
        if main != best:
            mine = [
                replace(stretch, start=part.start_s, end=part.end_s, part=True) for part in parts if part.cause == main
            ]
            evidence = self._plain(timeline, mine, before, evidence, main)
        others = sum(cost for cause, cost in seconds.items() if cause != main)
        return verdict(evidence, parts, confirmed=confirmed, mixed=others > MIXED * seconds.get(main, 0.0))

    def _cost(self, timeline: Timeline, part: Stretch, before: Reference) -> float:
        """Seconds of the usual work that did not come in a part: the main cause is what cost most, and a standstill
        costs more than the same time at half speed."""
        length = part.end - part.start
        if part.level:
            busy = reading.mean(timeline, "device.busy", part.devices, part.start, part.end, "mean")
            return length if busy is None else max(0.0, length * (1.0 - busy / part.level))
        progress = gather(timeline, self.scope, part, before).progress_ratio
        return length if progress is None else max(0.0, length * (1.0 - progress))

    def _plain(
        self, timeline: Timeline, parts: list[Stretch], before: Reference, whole: Evidence, main: Cause
    ) -> Evidence:
        """The numbers of the longest part in which ``main`` is the verdict: over the whole valley they are mixed, and
        so they may be over parts. Those of its slices say it where no part does."""
        parts = sorted(parts, key=lambda part: part.start - part.end)
        for stretch in (*parts, *(item for part in parts for item in slices(part))):
            numbers = replace(gather(timeline, self.scope, stretch, before), stood_still=whole.still)
            if judge(numbers)[0].cause == main:
                return numbers
        return whole

    def _agreeing(self, timeline: Timeline, evidence: Evidence, measures: list[Measure]) -> tuple[str, ...]:
        """The independent signals that agree, the valley's own first."""
        if self.kind == "progress":
            return of_progress(evidence)
        devices = {item.source: item for item in self.scope.devices}
        found: list[str] = []
        for dip, item in zip(self.dips, measures, strict=True):
            if dip.source in devices:
                lost = dip.depth * (item.end - item.start)
                found += counters_fell(timeline, devices[dip.source], item.start, item.end, lost)
        return of_utilisation(evidence, self.window, tuple(sorted(set(found))))

    def _depth(self) -> float | None:
        depth = self.stall.depth if self.stall else sum(dip.depth for dip in self.dips) / len(self.dips)
        return min(1.0, depth)

    @staticmethod
    def _idle_of(measures: list[Measure]) -> tuple[float, float]:
        return sum(item.idle for item in measures), sum(item.error for item in measures)

    @staticmethod
    def _idle(timeline: Timeline, stretch: Stretch) -> tuple[float, float] | None:
        """Of a standstill: device-seconds idle, with all of the time in which a device was not seen in their error.
        None where none was seen at all."""
        items = reading.series(timeline, "device.busy", stretch.devices)
        parts = [reading.seen_seconds(timeline, item, stretch.start, stretch.end) for item in items]
        seen = sum(seconds for seconds, _ in parts)
        if seen <= 0.0:
            return None
        unseen = (stretch.end - stretch.start) * len(stretch.devices) - seen
        return max(0.0, seen - sum(busy for _, busy in parts)), ROUNDING * seen + max(0.0, unseen)

    def _tokens(self, evidence: Evidence, cause: Cause) -> float | None:
        if cause == "no_demand":
            return 0.0
        if self.stall is not None:
            return max(0.0, self.stall.expected - self.stall.units) if self.in_tokens else None
        rate, before = evidence.decode_rate, evidence.decode_before
        if rate is None or before is None:
            return None
        if rate >= NO_COST * before:
            return 0.0
        return (before - rate) * evidence.length


def _less_demand(evidence: Evidence) -> bool:
    """Whether some requests ran, each at its usual speed, and none waited: fewer tokens were asked for, and that is no
    valley. (Where nothing runs, a silence may stand for the idle device that nobody sees.)"""
    each, running, waiting = each_ratio(evidence), evidence.running, evidence.waiting
    if each is None or running is None or waiting is None:
        return False
    return each >= EACH_FAST and running.mean >= SOME and waiting.high <= FEW


def _longest(measures: list[Measure]) -> tuple[float, float] | None:
    """Of several devices the longest gap of any."""
    found = [item.longest for item in measures if item.longest is not None]
    return (max(low for low, _ in found), max(high for _, high in found)) if found else None
