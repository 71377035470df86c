"""Gap-free watching of one process: the next recorder samples before the one before it is asked to write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gaptop_collectors.collector import CollectorError, Delivered, Hole, Message, SourceInfo, Stacks
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.pyspy_budget import overlap_ns, writing_ns
from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_recorder import Recorder, living_threads
from gaptop_collectors.host.pyspy_source import LEFT_OUT, describe
from gaptop_collectors.host.pyspy_trace import BadTrace, StackTable
from gaptop_collectors.target import ServerProcess

SECOND: Final = 1_000_000_000
_JOIN_TICKS: Final = 5
DELAY_TICKS: Final = 0.7
"""A change shows on average a tick late, half of the changes within 0.7."""
_EARLY_NS: Final = 3 * SECOND
_APART_NS: Final = SECOND * 3 // 10
"""Between the first starts of two processes' recorders: 9 ms of CPU each, so 3 % of a core."""
_START_NS: Final = 10 * SECOND
_REAP_NS: Final = SECOND // 100
_BACK_OFF: Final = (1, 2, 5, 15, 60)
_HURRY: Final = 1.5
"""A recorder so many times as fast or as slow as is planned by now is not let run to the end of its window."""


class Roller:
    """Driven by :meth:`step` from one thread; ``start(pid, rate)`` makes a recorder or raises OSError."""

    def __init__(self, process: ServerProcess, start: Callable[[int, int], Recorder], table: StackTable) -> None:
        self.process = process
        self.source = f"threads/{process.pid}"
        self.rate = 0
        self.window_ns = 4 * SECOND
        self.trouble: CollectorError | None = None
        self.learnt = Learnt()
        self.over_budget = False
        self.threads: dict[int, str] = {}
        self._start = start
        self._table = table
        self._current: Recorder | None = None
        self._coming: Recorder | None = None
        self._draining: list[Recorder] = []
        self.until = self._retry_ns = time.monotonic_ns()
        """Everything up to ``until`` is delivered."""
        self._early = self._retired = self._seen = self._measured = False
        self._shorten_ns = 0
        self._look: tuple[int, int] | None = None
        self._closer: Recorder | None = None
        self._closer_ns = self._failures = 0
        self._info: SourceInfo | None = None

    def hand_over_early(self) -> None:
        """Deliver soon what is being watched now; rationed, since every hand-over costs 18 ms of CPU."""
        self._early = True

    def look_closer(self, rate: int, window_ns: int) -> None:
        """Begin a recorder of this higher rate at once, for so long; what was seen until now is delivered."""
        self._look = rate, window_ns

    def retire(self) -> None:
        """Ask for the last window; :meth:`over` tells when it is here."""
        self._retired = True

    @property
    def over(self) -> bool:
        return self._retired and self._current is None and self._coming is None and not self._draining

    def stagger(self, place: int) -> None:
        """Let neither the starts nor the hand-overs of several processes fall on one moment."""
        self._retry_ns = self.until + place * _APART_NS
        self._shorten_ns = place % 4 * SECOND // 2

    def next_step(self, now: int) -> int:
        """When :meth:`step` must come even if no recorder says anything until then."""
        recorders = self._recorders
        if any(item.ending for item in recorders):
            return now + _REAP_NS
        moments = [now + SECOND]
        moments += [item.asked_ns + writing_ns(item.rate) for item in self._draining if item.asked_ns is not None]
        moments += [item.started_ns + _START_NS for item in recorders if item.live_ns is None]
        blind = self._current is None or self._current.live_ns is None
        if blind and not self._draining and not self._retired:
            moments.append(self.until + SECOND)
        if self.rate > 0 and not self._retired:
            moments += self._next_change()
        return max(now + _REAP_NS, min(moments))

    def _next_change(self) -> list[int]:
        """When a recorder is to be started or to take over."""
        current, coming = self._current, self._coming
        if coming is not None:
            return [] if coming.live_ns is None else [coming.live_ns + (current is not None) * overlap_ns(coming.rate)]
        if current is None or current.live_ns is None:
            return [self._retry_ns] if current is None else []
        due = max(self._due(current), self._retry_ns)
        return [due if self.learnt.tick is not None else min(due, current.live_ns + SECOND)]

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

    @property
    def _recorders(self) -> list[Recorder]:
        """The oldest first."""
        return [item for item in (*self._draining, self._current, self._coming) if item is not None]

    def abandon(self) -> None:
        """Kill every recorder."""
        for recorder in self._recorders:
            recorder.abandon()
        self._current = self._coming = None
        self._draining.clear()

    def interrupt(self) -> None:
        """Ask every recorder to end, so that :meth:`abandon` need not kill it."""
        for recorder in self._recorders:
            recorder.stop()

    def last(self) -> list[Message]:
        """The windows of the recorders that have ended since :meth:`interrupt`, the oldest first."""
        out: list[Message] = []
        for recorder in self._recorders:
            if recorder.poll():
                self._finish(recorder, out)
        return out

    def finished(self) -> bool:
        """Whether every recorder has ended by itself."""
        return all(item.poll() for item in self._recorders)

    def _drain(self, recorder: Recorder, now: int, out: list[Message]) -> None:
        if recorder.poll():
            self._draining.remove(recorder)
            self._finish(recorder, out)
        elif recorder.asked_ns is not None and now - recorder.asked_ns > writing_ns(recorder.rate):
            recorder.kill()

    def _let_go(self) -> None:
        self.interrupt()
        self._draining, self._current, self._coming = self._recorders, None, None

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
        elif self.learnt.tick is None and now - current.live_ns >= SECOND:
            # The next one begins only at the next step, so that its rate is planned with this.
            self.learnt.glance(current, (now - current.live_ns) / SECOND)
            self._measured = True
        elif self._coming is None and now >= max(self._due(current), self._retry_ns):
            self._coming = self._try_start(now)
            self._early, self._shorten_ns = False, 0

    def _due(self, current: Recorder) -> int:
        """When the recorder, which is live, is to be followed by the next one."""
        live = current.live_ns or current.started_ns
        if self._look is not None:
            return live
        if current is self._closer:
            return live + self._closer_ns
        if self.learnt.falls_behind(current) or not 1 / _HURRY <= current.rate / self._next_rate <= _HURRY:
            self._early = True
        full = self.window_ns - min(self._shorten_ns, self.window_ns // 2)
        return live + (min(_EARLY_NS, full) if self._early else full)

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
        elif self._current is None or now - coming.live_ns >= overlap_ns(coming.rate):
            if self._current is not None:
                self._current.stop()
                self._draining.append(self._current)
            self._current, self._coming = coming, None

    def _try_start(self, now: int) -> Recorder | None:
        rate, look = self._next_rate, self._look
        if look is not None:
            rate = max(rate, round(look[0] / self.learnt.slowed))
        try:
            recorder = self._start(self.process.pid, rate)
            self._closer = recorder if look is not None else None
            self._closer_ns, self._look = look[1] if look is not None else 0, None
            return recorder
        except OSError as error:
            self._back_off(now)
            says = f"py-spy could not be started ({error}), so stacks are missing: gaptop goes on trying."
            self.trouble = CollectorError(says)
            return None

    def _finish(self, recorder: Recorder, out: list[Message]) -> None:
        delay, join = round(DELAY_TICKS * SECOND / recorder.rate), _JOIN_TICKS * SECOND // recorder.rate
        known = self.until if self._seen else None
        begun = time.thread_time()
        try:
            found = recorder.trace(self._table, delay, known, join, living_threads(self.process.pid))
        except BadTrace as error:
            found = None
            self.trouble = CollectorError(f"{error}, so a window of stacks is lost: gaptop goes on.")
        if found is None:
            self._fail(recorder, time.monotonic_ns())
            return
        trace, error_ns = found
        if self._seen and trace.covered[0] > self.until:
            reason = self.trouble.says if self.trouble is not None else "no sampling between two recorders"
            out.append(Hole(self.source, self.until, trace.covered[0], reason))
        self.trouble, self._failures, self._measured = None, 0, True
        self.threads = dict(trace.threads)
        seconds = (trace.covered[1] - trace.covered[0]) / SECOND
        self.learnt.window(recorder, seconds, error_ns, time.thread_time() - begun)
        self._seen = True
        self.until = max(self.until if known is not None else 0, trace.covered[1])
        self._tell(out)
        if trace.covered[0] < trace.covered[1]:
            out.append(Stacks(self.source, trace.covered, trace.spans))
        out.append(Delivered(self.source, self.until))

    def _fail(self, recorder: Recorder, now: int) -> None:
        if recorder.asked_ns is None or recorder.code not in (0, -9):
            self.trouble = pyspy_command.explain(self.process.pid, recorder.output, recorder.code)
        self._seen = True  # from here on the time since the last delivery is a hole, not a start
        self._back_off(now)

    def _back_off(self, now: int) -> None:
        self._retry_ns = now + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)] * SECOND
        self._failures += 1
        self._look = None

    def _admit_hole(self, now: int, out: list[Message]) -> None:
        """Nobody watches: say so each second, unless older recorders have yet to write."""
        if now - self.until < SECOND or self._draining or self._retired:
            return
        reason = self.trouble.says if self.trouble is not None else "py-spy is starting" if self.rate else LEFT_OUT
        self._tell(out)
        out.append(Hole(self.source, self.until, now, reason))
        out.append(Delivered(self.source, now))
        self.until, self._seen = now, True

    def _tell(self, out: list[Message]) -> None:
        closer = self._closer if self._closer in (self._current, self._coming) else None
        info = describe(
            self.process,
            self.threads,
            rate=self._next_rate,
            closer=0 if closer is None else closer.rate,
            window=self.window_ns / SECOND,
            learnt=self.learnt,
            over=self.over_budget,
            trouble=self.trouble,
        )
        if info != self._info:
            self._info = info
            out.append(info)

    @property
    def _next_rate(self) -> int:
        return max(1, round(self.rate / self.learnt.slowed)) if self.rate else 0
