"""One valley while it is being found and judged: its members, its verdict so far, its final form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.causes.rule import LIKELY, quiet
from gaptop.valleys.detect import Dip, refine
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.host_view import BUSY, critical, front_end, holds_none
from gaptop.valleys.model import Cause, Segment, Valley, ValleyKind, Verdict
from gaptop.valleys.progress import Stall
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import Scope
from gaptop.valleys.verdict import judge, verdict

SLICE: Final = 0.5
"""Seconds a slice at least: one reading of the metrics at the default rate."""

SLICES: Final = 32
"""Slices a valley at most, so that a long one costs no more to judge."""

SHORTEST: Final = 0.25
"""A valley shorter than this, or than two windows, is suspected at most."""

NO_COST: Final = 0.95
"""Progress above this share of the usual cost nothing: it is within the readings' scatter."""

ROUNDING: Final = 0.005
"""Readings of the duty cycle are whole per cents."""

POWER_FELL: Final = 0.8
ENDED_ENOUGH: Final = 1e-6

LOOKS_LIKE: Final[tuple[Cause, Cause]] = ("prefill_interference", "stalled_busy")
"""What a whole valley is, and what its slices cannot tell it from."""


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
    """The ordinary time before it was no faster: what looked usual to the detector was not."""

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
        return max(self._last_of(dip) for dip in self.dips)

    def judge(self, timeline: Timeline, *, final: bool) -> Valley:
        """The valley as known now; cut into slices once it is ``final``, i.e. nothing will change it."""
        start, end = self._bounds(timeline)
        stretch = self._stretch(start, max(end, start + SLICE / 10))
        before = Reference(timeline, self.before)
        evidence = gather(timeline, self.scope, stretch, before)
        progress = evidence.progress_ratio
        self.refuted = self.kind == "progress" and progress is not None and progress >= NO_COST
        confirmed = self._confirmed(evidence, end - start)
        idle = self._idle(timeline, stretch)
        said = self._verdict(timeline, stretch, before, evidence, confirmed, final)
        self.judged_at = timeline.now
        self.final = final
        self.valley = Valley(
            id=self.id,
            kind=self.kind,
            devices=tuple(item.label for item in self.scope.devices if item.source in stretch.devices),
            start_s=start,
            end_s=None if self.end is None else end,
            start_error_s=self.stall.start_error if self.stall else max(dip.start_error for dip in self.dips),
            end_error_s=self.stall.end_error if self.stall else max(dip.end_error for dip in self.dips),
            depth_ratio=self._depth(),
            idle_s=None if idle is None else idle[0],
            idle_error_s=None if idle is None else idle[1],
            confirmed=confirmed,
            tokens_lost=self._tokens(evidence, said.cause),
            final=final,
            verdict=said,
        )
        return self.valley

    def _bounds(self, timeline: Timeline) -> tuple[float, float]:
        if self.stall is not None or self.end is None:
            return self.start, self.reached()
        bounds = []
        for dip in self.dips:
            ids = timeline.ids("device.busy", dip.source)
            if ids and dip.end is not None:
                bounds.append(refine(dip, timeline.steps(ids[0], dip.start, dip.end), self.window))
        return min(start for start, _ in bounds), max(end for _, end in bounds)

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
        best = judge(evidence)[0].cause
        segments = _segments(timeline, self.scope, stretch, before, best) if final else ()
        seconds: dict[Cause, float] = {}
        for part in segments:
            seconds[part.cause] = seconds.get(part.cause, 0.0) + part.end_s - part.start_s
        main = max(seconds, key=lambda cause: (seconds[cause], cause == best)) if seconds else best
        if main != best:
            # The numbers come from the longest part that has the main cause: over all of it they are mixed.
            part = max((item for item in segments if item.cause == main), key=lambda item: item.end_s - item.start_s)
            mixed = gather(timeline, self.scope, replace(stretch, start=part.start_s, end=part.end_s), before)
            if judge(mixed)[0].cause == main:
                evidence = mixed
        return verdict(evidence, segments, confirmed=confirmed)

    def _confirmed(self, evidence: Evidence, length: float) -> bool:
        """Two independent signals agree: the device, the server's own numbers, power, or the host's threads."""
        if self.kind == "utilisation":
            if length < max(SHORTEST, 2 * self.window) - ENDED_ENOUGH:
                return False
            progress = evidence.progress_ratio
            fell = progress is not None and progress < 1 - SHORTEST
            cooled = evidence.power_ratio is not None and evidence.power_ratio < POWER_FELL
            return fell or cooled or quiet(evidence) is True or holds_none(evidence) is not None
        main, front = critical(evidence), front_end(evidence)
        held = [main.compiling, main.transfer, main.loading, main.sync, front.busy]
        threads = any(share is not None and share >= BUSY for share in held)
        cold = evidence.power_ratio is not None and evidence.power_ratio < POWER_FELL
        compilers = evidence.compilers is not None and evidence.compilers >= 1.0
        return bool(evidence.device_idle) or threads or cold or compilers

    def _depth(self) -> float | None:
        depth = self.stall.depth if self.stall else sum(dip.depth for dip in self.dips) / len(self.dips)
        return min(1.0, depth)

    def _idle(self, timeline: Timeline, stretch: Stretch) -> tuple[float, float] | None:
        """Device-seconds idle and their error: half a per cent of each window that was neither empty nor full, and all
        of the time in which a device was not seen. None where none was seen at all."""
        if self.stall is None:
            unseen = sum(max(0.0, self._last_of(dip) - dip.start - dip.seconds) for dip in self.dips)
            rounding = sum(dip.partial_windows for dip in self.dips) * ROUNDING * self.window
            return sum(dip.idle for dip in self.dips), rounding + unseen
        items = reading.series(timeline, "device.busy", stretch.devices)
        parts = [reading.seen_seconds(timeline, item, stretch.start, stretch.end) for item in items]
        seen = sum(seconds for seconds, _ in parts)
        if seen <= 0.0:
            return None
        unseen = (stretch.end - stretch.start) * len(stretch.devices) - seen
        return max(0.0, seen - sum(busy for _, busy in parts)), ROUNDING * seen + max(0.0, unseen)

    @staticmethod
    def _last_of(dip: Dip) -> float:
        return dip.low_end if dip.end is None else dip.end

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


def _segments(
    timeline: Timeline, scope: Scope, stretch: Stretch, before: Reference, best: Cause
) -> tuple[Segment, ...]:
    """Slices on a fixed grid, each with its own cause where that is plain and the whole valley's otherwise, merged.

    A prompt is booked when its prefill ends: in all slices but the last one a prefill looks like a wedge, so that none
    of them may say so where the whole valley, booking included, is a prefill.
    """
    length = stretch.end - stretch.start
    if length < 2 * SLICE:
        return (Segment(stretch.start, stretch.end, best),)
    step = SLICE
    while length / step > SLICES:
        step *= 2
    parts: list[Segment] = []
    start = stretch.start
    while start < stretch.end:
        end = min((int(start / step + ENDED_ENOUGH) + 1) * step, stretch.end)
        if stretch.end - end < step / 2:
            end = stretch.end
        findings = judge(gather(timeline, scope, replace(stretch, start=start, end=end), before))
        finding = next(item for item in findings if (best, item.cause) != LOOKS_LIKE)
        cause = finding.cause if finding.score >= LIKELY else best
        if parts and parts[-1].cause == cause:
            parts[-1] = Segment(parts[-1].start_s, end, cause)
        else:
            parts.append(Segment(start, end, cause))
        start = end
    return tuple(parts)
