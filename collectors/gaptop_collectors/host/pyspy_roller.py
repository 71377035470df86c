"""Gap-free watching of one process: the next recorder samples before the one before it is asked to write."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Final

from gaptop_collectors.collector import CollectorError, Delivered, Hole, Message, SourceInfo, Stacks
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.pyspy_budget import START_CPU
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_source import LEFT_OUT, describe
from gaptop_collectors.host.pyspy_trace import BadTrace, StackTable, Trace
from gaptop_collectors.target import ServerProcess

SECOND: Final = 1_000_000_000
_GRACE_TICKS: Final = 5
"""Ticks that the old recorder goes on beside the new one: sampling is Poisson, so a gap outlives them in < 1 %."""
_JOIN_TICKS: Final = 3
_DELAY_TICKS: Final = 0.7
"""A change shows on average a tick late, half of the changes within 0.7."""
_EARLY_NS: Final = 3 * SECOND
_START_NS: Final = 10 * SECOND
_WRITE_NS: Final = 3 * SECOND
_REAP_NS: Final = SECOND // 100
_BACK_OFF: Final = (1, 2, 5, 15, 60)
_MOST_SLOWED: Final = 4.0


class Roller:
    """Driven by :meth:`step` from one thread; ``start(pid, rate)`` makes a recorder or raises OSError."""

    def __init__(self, process: ServerProcess, start: Callable[[int, int], Recorder], table: StackTable) -> None:
        self.process = process
        self.source = f"threads/{process.pid}"
        self.rate = 0
        self.window_ns = 4 * SECOND
        self.trouble: CollectorError | None = None
        self.tick_seconds: float | None = None
        self.start_seconds = START_CPU
        self.threads: dict[int, str] = {}
        self._start = start
        self._table = table
        self._current: Recorder | None = None
        self._coming: Recorder | None = None
        self._draining: list[Recorder] = []
        self._until = self._retry_ns = time.monotonic_ns()
        self._early = self._retired = self._seen = self._measured = False
        self._shorten_ns = 0
        self._failures = 0
        self._slowed = 1.0
        self._error_share = 0.0
        self._info: SourceInfo | None = None
        self._clock_error_s = 0.0

    def hand_over_early(self) -> None:
        """Deliver soon what is being watched now; rationed, since every hand-over costs 18 ms of CPU."""
        self._early = True

    def retire(self) -> None:
        """Ask for the last window; :meth:`over` tells when it is here."""
        self._retired = True

    @property
    def over(self) -> bool:
        return self._retired and self._current is None and self._coming is None and not self._draining

    def stagger(self, place: int) -> None:
        """Let the first hand-over come earlier than the others', so that they do not all fall on one moment."""
        self._shorten_ns = place % 4 * SECOND // 2

    @property
    def until(self) -> int:
        """Everything up to this time is delivered."""
        return self._until

    def next_step(self, now: int) -> int:
        """When :meth:`step` must come even if no recorder says anything until then."""
        recorders = [item for item in (self._current, self._coming, *self._draining) if item is not None]
        if any(item.ending for item in recorders):
            return now + _REAP_NS
        moments = [now + SECOND]
        moments += [item.asked_ns + _WRITE_NS for item in self._draining if item.asked_ns is not None]
        moments += [item.started_ns + _START_NS for item in recorders if item.live_ns is None]
        blind = self._current is None or self._current.live_ns is None
        if blind and not self._draining and not self._retired:
            moments.append(self._until + SECOND)
        if self.rate > 0 and not self._retired:
            moments += self._next_change()
        return max(now + _REAP_NS, min(moments))

    def _next_change(self) -> list[int]:
        """When a recorder is to be started or to take over."""
        current, coming = self._current, self._coming
        if coming is not None:
            grace = _GRACE_TICKS * SECOND // coming.rate
            return [] if coming.live_ns is None else [coming.live_ns + (grace if current is not None else 0)]
        if current is None:
            return [self._retry_ns]
        return [] if current.live_ns is None else [max(self._due(current.live_ns), self._retry_ns)]

    @property
    def lost(self) -> bool:
        """Whether nothing is seen, and not only for a moment."""
        return self.trouble is not None and (self._failures >= 3 or self.trouble.state == "refused")

    def measured(self) -> bool:
        """Whether a window came in since the last call, so that its cost is known anew."""
        new, self._measured = self._measured, False
        return new

    def step(self, now: int) -> list[Message]:
        """Move on; returns what there is to deliver. To be called when a recorder was read and at :meth:`next_step`."""
        out: list[Message] = []
        for recorder in tuple(self._draining):
            self._drain(recorder, now, out)
        if self._retired:
            self._let_go()
        elif self.rate > 0:
            self._watch(now, out)
            self._take_over(now)
        if self._current is None or self._current.live_ns is None:
            self._admit_hole(now, out)
        self._tell(out)
        return out

    def abandon(self) -> None:
        """Kill every recorder."""
        for recorder in (self._current, self._coming, *self._draining):
            if recorder is not None:
                recorder.abandon()
        self._current = self._coming = None
        self._draining.clear()

    def interrupt(self) -> None:
        """Ask every recorder to end, so that :meth:`abandon` need not kill it."""
        for recorder in (self._current, self._coming, *self._draining):
            if recorder is not None:
                recorder.stop()

    def last(self) -> list[Message]:
        """The windows of the recorders that have ended since :meth:`interrupt`, the oldest first."""
        out: list[Message] = []
        for recorder in (*self._draining, self._current, self._coming):
            if recorder is not None and recorder.poll():
                self._finish(recorder, out)
        return out

    def finished(self) -> bool:
        """Whether every recorder has ended by itself."""
        return all(item is None or item.poll() for item in (self._current, self._coming, *self._draining))

    def _drain(self, recorder: Recorder, now: int, out: list[Message]) -> None:
        if recorder.poll():
            self._draining.remove(recorder)
            self._finish(recorder, out)
        elif recorder.asked_ns is not None and now - recorder.asked_ns > _WRITE_NS:
            recorder.kill()

    def _let_go(self) -> None:
        for recorder in (self._current, self._coming):
            if recorder is not None:
                recorder.stop()
                self._draining.append(recorder)
        self._current = self._coming = None

    def _watch(self, now: int, out: list[Message]) -> None:
        """Keep one recorder running, and start the next one when its window is full."""
        current = self._current
        if current is None:
            if now >= self._retry_ns:
                self._current = self._try_start(now)
            return
        if current.poll():
            self._current = None
            self._finish(current, out)
        elif current.live_ns is None:
            if now - current.started_ns > _START_NS:
                current.kill()
        elif self._coming is None and now >= max(self._due(current.live_ns), self._retry_ns):
            self._coming = self._try_start(now)
            self._early, self._shorten_ns = False, 0

    def _due(self, live_ns: int) -> int:
        full = self.window_ns - min(self._shorten_ns, self.window_ns // 2)
        return live_ns + (min(_EARLY_NS, full) if self._early else full)

    def _take_over(self, now: int) -> None:
        coming = self._coming
        if coming is None:
            return
        if coming.poll():
            self._coming = None
            self._fail(coming, now)
        elif coming.live_ns is None:
            if now - coming.started_ns > _START_NS:
                coming.kill()
        elif self._current is None or now - coming.live_ns >= _GRACE_TICKS * SECOND // coming.rate:
            if self._current is not None:
                self._current.stop()
                self._draining.append(self._current)
            self._current, self._coming = coming, None

    def _try_start(self, now: int) -> Recorder | None:
        rate = max(1, round(self.rate / self._slowed))
        try:
            return self._start(self.process.pid, rate)
        except OSError as error:
            self._back_off(now)
            self.trouble = CollectorError(
                f"py-spy could not be started ({error}), so stacks are missing: gaptop goes on trying."
            )
            return None

    def _finish(self, recorder: Recorder, out: list[Message]) -> None:
        delay = round(_DELAY_TICKS * SECOND / recorder.rate)
        join = _JOIN_TICKS * SECOND // recorder.rate
        known = self._until if self._seen else None
        try:
            found = recorder.trace(self._table, delay, known, join, _tids(self.process.pid))
        except BadTrace as error:
            found = None
            self.trouble = CollectorError(f"{error}, so a window of stacks is lost: gaptop goes on.")
        if found is None:
            self._fail(recorder, time.monotonic_ns())
            return
        trace, error_ns = found
        if self._seen and trace.covered[0] > self._until:
            reason = self.trouble.says if self.trouble is not None else "no sampling between two recorders"
            out.append(Hole(self.source, self._until, trace.covered[0], reason))
        self._learn(recorder, trace, error_ns)
        self._seen = True
        self._until = max(self._until if known is not None else 0, trace.covered[1])
        self._tell(out)
        if trace.covered[0] < trace.covered[1]:
            out.append(Stacks(self.source, trace.covered, trace.spans))
        out.append(Delivered(self.source, self._until))

    def _learn(self, recorder: Recorder, trace: Trace, error_ns: int) -> None:
        self.trouble, self._failures, self._measured = None, 0, True
        self.threads = dict(trace.threads)
        # In whole hundredths and only upwards: a source is described anew at each change.
        self._clock_error_s = max(self._clock_error_s, math.ceil(error_ns / SECOND * 100) / 100)
        self._error_share = recorder.error_share
        seconds = (trace.covered[1] - trace.covered[0]) / SECOND
        if recorder.code == 0 and seconds > 0.5:
            start = recorder.start_seconds or START_CPU
            tick = max(0.0, recorder.cpu_seconds - start) / (seconds * recorder.rate)
            self.tick_seconds = tick if self.tick_seconds is None else 0.7 * self.tick_seconds + 0.3 * tick
            self.start_seconds = 0.7 * self.start_seconds + 0.3 * start
        self._slowed = min(_MOST_SLOWED, self._slowed * 1.5) if recorder.behind else max(1.0, self._slowed * 0.9)

    def _fail(self, recorder: Recorder, now: int) -> None:
        if recorder.asked_ns is None or recorder.code not in (0, -9):
            self.trouble = pyspy_command.explain(self.process.pid, recorder.output, recorder.code)
        self._seen = True  # from here on the time since the last delivery is a hole, not a start
        self._back_off(now)

    def _back_off(self, now: int) -> None:
        self._retry_ns = now + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)] * SECOND
        self._failures += 1

    def _admit_hole(self, now: int, out: list[Message]) -> None:
        """Nobody watches: say so each second, unless older recorders have yet to write."""
        if now - self._until < SECOND or self._draining or self._retired:
            return
        reason = self.trouble.says if self.trouble is not None else "py-spy is starting" if self.rate else LEFT_OUT
        self._tell(out)
        out.append(Hole(self.source, self._until, now, reason))
        out.append(Delivered(self.source, now))
        self._until, self._seen = now, True

    def _tell(self, out: list[Message]) -> None:
        info = self._describe()
        if info != self._info:
            self._info = info
            out.append(info)

    def _describe(self) -> SourceInfo:
        return describe(
            self.process,
            self.threads,
            rate=max(1, round(self.rate / self._slowed)) if self.rate else 0,
            window=self.window_ns / SECOND,
            clock_error=self._clock_error_s,
            slowed=self._slowed > 1.05,
            error_share=self._error_share,
            trouble=self.trouble,
        )


def _tids(pid: int) -> set[int] | None:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return None
