"""The server's part of the evidence: its gauges and counters, as far as they can have moved inside a stretch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import reading
from gaptop.valleys.evidence import Gauge
from gaptop.valleys.freshness import decode_is_live, slowest
from gaptop.valleys.reference import Reference
from gaptop_collectors.signals import split_key

MOVEMENTS: Final = 2.0
"""A rate is known over two movements of its counter: over less it is an accident of where they fall."""

SLEPT: Final = 60.0
ASLEEP: Final = 0.5

GAUGES: Final = ("sched.running", "sched.waiting", "kv.used", "sched.waiting_by_reason", "slots.prefilling")


@dataclass(frozen=True, slots=True)
class Told:
    """What one server's metrics tell of the time from ``start`` to ``end``."""

    timeline: Timeline
    metrics: tuple[str, ...]
    start: float
    end: float
    before: Reference

    @property
    def live(self) -> tuple[str, ...]:
        """The sources whose generated tokens are counted as they come."""
        return tuple(info.id for info in self._infos() if decode_is_live(info))

    @property
    def period(self) -> float:
        """Seconds between two readings."""
        return max((info.period for info in self._infos()), default=0.0)

    def _infos(self) -> list[Source]:
        views = self.timeline.sources
        return [views[item].info for item in self.metrics if item in views]

    def _every(self, signal: str) -> float:
        return slowest(self._infos(), signal, self.before.rate("step.count", self.metrics))

    def _moves(self, signal: str, times: float = 1.0) -> bool:
        every = self._every(signal)
        return every == 0.0 or self.end - self.start >= times * every

    @property
    def gauges_every(self) -> float | None:
        """Seconds between two movements of the gauges, where those are too rare to tell of the time."""
        told = [self._every(signal) for signal in GAUGES if reading.series(self.timeline, signal, self.metrics)]
        most = max(told, default=0.0)
        return most if most > self.end - self.start else None

    def gauge(self, signal: str) -> Gauge | None:
        if not self._moves(signal):
            return None
        before = self.before.mean(signal, self.metrics)
        return reading.gauge(self.timeline, signal, self.metrics, self.start, self.end, self.period, before)

    def deferred(self) -> Gauge | None:
        """Requests passed over, as they were read inside the time like the other gauges."""
        items = reading.series(self.timeline, "sched.waiting_by_reason", self.metrics)
        passed = [item for item in items if split_key(item.key)[1].get("reason") == "deferred"]
        if not self._moves("sched.waiting_by_reason"):
            return None
        return reading.gauge_of(self.timeline, passed, self.start, self.end, self.period, None)

    def mean(self, signal: str) -> float | None:
        """A gauge's mean over all of the time, also what was read just before it."""
        found = reading.mean(self.timeline, signal, self.metrics, self.start, self.end)
        return found if self._moves(signal) else None

    def rate(self, signal: str) -> float | None:
        """What a counter grew by a second; generated tokens only where they are counted as they come."""
        sources = self.live if signal == "tokens.decode" else self.metrics
        found = reading.rate(self.timeline, signal, sources, self.start, self.end)
        return found if self._moves(signal, MOVEMENTS) else None

    def usual(self, signal: str) -> float | None:
        """The same in the time before."""
        return self.before.rate(signal, self.live if signal == "tokens.decode" else self.metrics)

    def counted_every(self, signal: str) -> float | None:
        """Seconds between two readings of a counter that can differ."""
        infos = self._infos()
        read = max((info.period_by_signal.get(signal, info.period) for info in infos), default=None)
        return None if read is None else max(read, self._every(signal))

    def hit_ratio(self) -> float | None:
        """Share of the looked-up prompt tokens that the prefix cache held; None over less than one reading's time."""
        hits, queries, every = self.rate("kv.hits"), self.rate("kv.queries"), self.counted_every("kv.hits")
        if hits is None or not queries or every is None or self.end - self.start < every:
            return None
        return hits / queries

    def awake_for(self) -> float | None:
        """Seconds since the engine woke up, where it was seen asleep within the last minute."""
        woke = None
        for item in reading.series(self.timeline, "sched.sleeping", self.metrics):
            steps = self.timeline.steps(item, max(0.0, self.start - SLEPT), self.end)
            pieces = zip(steps.start.tolist(), steps.value.tolist(), strict=True)
            for (_, last), (begun, value) in pairwise(pieces):
                if last >= ASLEEP > value and begun <= self.end:
                    woke = begun if woke is None else max(woke, begun)
        return None if woke is None else self.end - woke

    def inner_progress(self) -> float | None:
        """Steps (or tokens) against the usual, one reading away from both edges."""
        for signal in ("step.count", "tokens.decode"):
            aside = max(self.period, self._every(signal))
            sources: Sequence[str] = self.metrics if signal == "step.count" else self.live
            start, end = self.start + aside, self.end - aside
            rate = None if end - start < aside else reading.rate(self.timeline, signal, sources, start, end)
            usual = self.before.rate(signal, sources)
            if rate is not None and usual:
                return rate / usual
        return None
