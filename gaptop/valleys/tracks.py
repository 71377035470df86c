"""Feeds the detectors from the Timeline: one track a device, one a server."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Floats, SeriesId, Steps
from gaptop.valleys.detect import ACTIVE, Dip, DipDetector
from gaptop.valleys.freshness import decode_is_live, moves_every
from gaptop.valleys.grid import CELL, cell_of, cells, last_cell
from gaptop.valleys.learnt import GapRounding
from gaptop.valleys.ledger import DeviceTime
from gaptop.valleys.lumps import Lumps
from gaptop.valleys.member import Watched
from gaptop.valleys.ordinary import Ordinary
from gaptop.valleys.plateau import PlateauFinder
from gaptop.valleys.progress import FLAT, Interval, Stall, StallDetector
from gaptop.valleys.rounding import WHOLE, doubt
from gaptop.valleys.runs import Run, RunFinder

DEFAULT_WINDOW = 0.2
"""Seconds; where a device's source does not state its window (NVML's were measured at 167-202 ms)."""

WINDOW_MOVED = 0.05
"""A window that is this much longer or shorter is another one: what was learnt from the old one does not hold."""

SLOW_ANSWER = 0.1
"""Of the time between two readings: where half of an answer's time is more, it could move a rate by more than steady
servers scatter."""

SAME_READING = 1e-6
MOST_CELLS = round(3600 / CELL)


class DeviceTrack:
    """One device: its valleys, its shallow dips, its plateaus, its ordinary times, and how its readings are rounded."""

    def __init__(self, source: str, label: str) -> None:
        self.source = source
        self.label = label
        self.detector = DipDetector(source)
        self.plateaus = PlateauFinder(label)
        self.ordinary = Ordinary()
        self.shallow: list[Run] = []
        """Runs of low windows that no valley speaks for, newest last; to be taken out by whoever tells them."""
        self.cursor: int | None = None
        self.seen_s = self.busy_s = self.unjudged_s = 0.0
        """Seconds that were seen; busy of them; and idle before it had a level (``judged_from``)."""
        self.judged_from: float | None = None
        self.counted_to = -math.inf
        """The end of the newest window of them."""
        self.since = math.inf
        self._stated = ""
        self._learnt = GapRounding()
        self._runs = RunFinder()
        self._windows: deque[tuple[float, float, float]] = deque()
        self._told_to = -math.inf
        self._valley_to = -math.inf

    @property
    def rounding(self) -> str:
        """How readings are made whole per cents: as its source states it, else as its own gaps have told it."""
        return self._learnt.word or "percent" if self._stated == "percent" else self._stated

    @property
    def learnt(self) -> bool:
        """Whether its own gaps have told its rounding."""
        return self._stated == "percent" and self._learnt.word != ""

    def describe(self, info: Source) -> None:
        """The source was described (anew): its window may have been measured meanwhile."""
        stated = info.window_by_signal.get("device.busy") or info.window or info.period or DEFAULT_WINDOW
        if abs(stated - self.detector.window) > WINDOW_MOVED * stated and self._told_to > -math.inf:
            self._learnt = GapRounding()
        self.detector.window = self.plateaus.window = stated
        self._stated = info.rounding
        self.since = min(self.since, info.t)

    @property
    def watched(self) -> Watched:
        """Since it is known, or was seen if that is earlier; up to a window that is not due yet."""
        return Watched(self.label, self.source, self.since, self._reached(), self.judged_from, self.counted_to)

    @property
    def time(self) -> DeviceTime:
        """Where the time that it was watched went."""
        unseen = max(0.0, self._reached() - self.since - self.seen_s)
        return DeviceTime(self.label, self.seen_s, self.busy_s, self.unjudged_s, unseen)

    def _reached(self) -> float:
        if self.cursor is None:
            return self.since
        reached = self.cursor * CELL
        if reached - self.counted_to <= self.detector.window + CELL:
            reached = self.counted_to
        return reached

    def read(self, timeline: Timeline, until: float) -> tuple[int, Floats] | None:
        """The cells from the cursor up to ``until``, with the index of the first; None where there is none."""
        ids = timeline.ids("device.busy", self.source)
        if not ids:
            return None
        if self.cursor is None:
            steps = timeline.steps(ids[0], 0.0, until)
            if len(steps.start) == 0:
                return None
            self.cursor = max(0, cell_of(float(steps.start[0])))
        end = last_cell(until)
        if end <= self.cursor:
            return None
        # Stream time may jump in a damaged file; more than the timeline remembers holds nothing to look at.
        first, self.cursor = max(self.cursor, end - MOST_CELLS), end
        # A reading outside 0..1 is no share; kept as it is, one of them could outweigh an hour.
        found = timeline.steps(ids[0], first * CELL, end * CELL)
        steps = Steps(found.start, found.end, np.clip(found.value, 0.0, 1.0))
        for start, till, value in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True):
            if self._told_to + SAME_READING < till <= end * CELL + SAME_READING:
                self._windows.append((start, till, value))
                self._told_to = till
        return first, cells(steps, first, end)

    def feed(self, cell: int, value: float) -> tuple[Dip | None, Dip | None]:
        """Take one cell; returns the valley that began and the one that ended with it."""
        before, end = self.detector.open, (cell + 1) * CELL
        ended = self.detector.feed(cell, value)
        if ended is not None and ended.end is not None:
            self._valley_to = max(self._valley_to, ended.end)
        if self.judged_from is None and self.detector.level is not None:
            self.judged_from = end
        began = self.detector.open if self.detector.open is not before else None
        if began is not None:
            began.floor, began.rounding, began.not_before = self._runs.floor, self.rounding, self._valley_to
        while self._windows and self._windows[0][1] <= end + SAME_READING:
            self._window(*self._windows.popleft())
        inside = self.detector.open is not None
        self.plateaus.feed(cell, float("nan") if inside else value)
        if not inside and value > ACTIVE:
            self.ordinary.add(cell * CELL, (cell + 1) * CELL)
        return began, ended

    def _window(self, start: float, end: float, value: float) -> None:
        """Take one window, in the order of cells: what is learnt from it counts from then on, however readings came."""
        self._count(max(start, 0.0), end, value)
        run = self._runs.feed(start, end, value)
        if run is None:
            return
        if self._stated == "percent" and run.steady[0] >= 1.0 - WHOLE:
            self._learnt.add(run.values)
        if self.detector.open is None and self._valley_to <= run.start + SAME_READING:
            self.shallow.append(run)

    def _count(self, start: float, end: float, value: float) -> None:
        self.since, self.counted_to = min(self.since, start), end
        shift = doubt(self.rounding).shift if WHOLE < value < 1.0 - WHOLE else 0.0
        busy = min(1.0, value + shift)
        self.seen_s += end - start
        self.busy_s += busy * (end - start)
        unjudged = end if self.judged_from is None else min(end, self.judged_from)
        self.unjudged_s += (1.0 - busy) * max(0.0, unjudged - start)


class ProgressTrack:
    """One server: its progress valleys and its ordinary times. ``signal`` is what progress is measured by."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.signal = "tokens.decode"
        self.in_tokens = True
        self.detector = StallDetector(silences=False)
        self.ordinary = Ordinary()
        self.cursor = 0.0
        self._lumps = Lumps()

    def describe(self, info: Source) -> None:
        """Tokens that are booked only when a request ends do not show progress; steps do."""
        self.signal = "tokens.decode" if decode_is_live(info) else "step.count"
        self._lumps.every = moves_every(info, self.signal, None)

    def read(self, timeline: Timeline) -> list[Interval]:
        """Intervals between two readings that were completed since the last call."""
        steps = self._rates(timeline, "step.count")
        rates = self._rates(timeline, self.signal) if self.signal != "step.count" else steps
        self.in_tokens = bool(rates) and self.signal == "tokens.decode"
        found = []
        for (start, end), rate in sorted((rates or steps).items()):
            least = SLOW_ANSWER * (end - start)
            halves = [self._half(timeline, t) for t in (start, end)]
            doubts = (half if half > least else 0.0 for half in halves)
            demand = self._demand(timeline, start, end)
            item = Interval(start, end, rate, demand, steps.get((start, end)), *doubts)
            whole = self._lumps.feed(item)
            if whole is not None:
                found.append(whole)
            self.cursor = max(self.cursor, end)
        return found

    def _rates(self, timeline: Timeline, signal: str) -> dict[tuple[float, float], float]:
        """Rates of a counter between its readings since the cursor, all its series added up."""
        rates: dict[tuple[float, float], float] = {}
        for item in timeline.ids(signal, self.source):
            steps = timeline.steps(item, self.cursor, timeline.now + 1.0)
            for start, end, rate in zip(steps.start.tolist(), steps.end.tolist(), steps.value.tolist(), strict=True):
                if start >= self.cursor - SAME_READING:
                    rates[start, end] = rates.get((start, end), 0.0) + rate
        return rates

    def feed(self, item: Interval) -> tuple[Stall | None, Stall | None]:
        """Take one interval; returns the valley that began and the one that ended with it."""
        before = self.detector.open
        ended = self.detector.feed(item)
        began = self.detector.open if self.detector.open is not before else None
        level = self.detector.level or 0.0
        if self.detector.open is None and item.rate > FLAT * level:
            self.ordinary.add(item.start, item.end)
        return began, ended

    def _half(self, timeline: Timeline, t: float) -> float:
        """Half of the time that the answer took which was read at ``t``: so far its values may lie away from there."""
        return (_read_at(timeline, timeline.ids("latency.scrape", self.source), t) or 0.0) / 2

    def _demand(self, timeline: Timeline, start: float, end: float) -> float | None:
        ends = [self._requests(timeline, t) for t in (start, end)]
        seen = [value for value in ends if value is not None]
        return min(seen) if len(seen) == len(ends) else None

    def _requests(self, timeline: Timeline, t: float) -> float | None:
        """Requests running and waiting as read at ``t``; waiting counts as none where it is not told."""
        running = _read_at(timeline, timeline.ids("sched.running", self.source), t)
        if running is None:
            return None
        return running + (_read_at(timeline, timeline.ids("sched.waiting", self.source), t) or 0.0)


def _read_at(timeline: Timeline, ids: tuple[SeriesId, ...], t: float) -> float | None:
    """The sum of gauges as they were read at ``t``: what held from then on."""
    found = []
    for item in ids:
        latest = timeline.latest(item)
        if latest is not None and abs(latest[0] - t) <= SAME_READING:
            found.append(latest[1])
            continue
        value = timeline.value_at(item, t + 2 * SAME_READING)
        if value is not None:
            found.append(value)
    return sum(found) if found else None
