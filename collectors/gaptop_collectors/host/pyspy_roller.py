"""Gap-free watching of one process: the next recorder samples before the one before it is asked to write."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from gaptop_collectors.collector import CollectorError, Delivered, Hole, Message, SourceInfo, Stacks
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.critical import FOUND
from gaptop_collectors.host.pyspy_budget import overlap_ns
from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_pace import SECOND, Pace
from gaptop_collectors.host.pyspy_recorder import Recorder, living_threads
from gaptop_collectors.host.pyspy_source import LEFT_OUT, RESTS, describe
from gaptop_collectors.host.pyspy_trace import BadTrace, StackTable
from gaptop_collectors.host.pyspy_writing import Writing
from gaptop_collectors.host.roles import critical_tid
from gaptop_collectors.target import ServerProcess

_JOIN_TICKS: Final = 5
DELAY_TICKS: Final = 0.7
"""A change shows on average a tick late, half of the changes within 0.7."""
_APART_NS: Final = SECOND * 3 // 10
"""Between the first starts of two processes' recorders: 9 ms of CPU each, so 3 % of a core."""
_START_NS: Final = 10 * SECOND
_SURELY_NS: Final = 3 * SECOND
"""The recorder before goes on for so much longer where the next one, though live, has not looked yet: kept off its core
it took 0.2 s at 100 Hz."""
_REAP_NS: Final = SECOND // 100
_AS_ASKED: Final = (0, -signal.SIGINT, -signal.SIGKILL)
"""How a recorder ends that was asked to: the signal itself ends one that has not begun."""
_BACK_OFF: Final = (1, 2, 5, 15, 60)


class Roller:
    """Driven by :meth:`step` from one thread; ``start(pid, rate)`` makes a recorder or raises OSError."""

    def __init__(self, process: ServerProcess, start: Callable[[int, int], Recorder], table: StackTable) -> None:
        self.process = process
        self.source = f"threads/{process.pid}"
        self.trouble: CollectorError | None = None
        self.learnt = Learnt()
        self.pace = Pace(self.learnt)
        self.over_budget = self.rests = False
        """``rests``: it has no rate because what it has cost is being paid back."""
        self.seen_ns = 0
        """Until when it has been watched so far."""
        self.may_begin = True
        """Whether a first recorder may be started now; the one after another is always allowed."""
        self.threads: dict[int, str] = {}
        self._start = start
        self._table = table
        self._current: Recorder | None = None
        self._coming: Recorder | None = None
        self._writing = Writing()
        self.until = self._retry_ns = time.monotonic_ns()
        """Everything up to ``until`` is delivered."""
        self._retired = self._seen = self._measured = False
        self._failures = 0
        self._lost_by = ""
        """Why the last window that is missing is missing, where that is no trouble of the source."""
        self._info: SourceInfo | None = None

    def retire(self) -> None:
        """Ask for the last window; :meth:`over` tells when it is here."""
        self._retired = True

    @property
    def over(self) -> bool:
        return self._retired and self._current is None and self._coming is None and not self._writing.recorders

    def stagger(self, place: int, now: int) -> None:
        """Let neither the starts nor the hand-overs of several processes fall on one moment."""
        self._retry_ns = now + place * _APART_NS
        self.pace.shorten(place)

    def next_step(self, now: int) -> int:
        """When :meth:`step` must come even if no recorder says anything until then."""
        recorders = self._recorders
        if any(item.ending for item in recorders):
            return now + _REAP_NS
        moments = [now + SECOND, *self._writing.patience()]
        moments += [item.started_ns + _START_NS for item in recorders if item.live_ns is None]
        blind = self._current is None or self._current.live_ns is None
        if blind and not self._writing.recorders and not self._retired:
            moments.append(self.until + SECOND)
        if self.pace.rate > 0 and not self._retired:
            moments += self._next_change(now)
        return max(now + _REAP_NS, min(moments))

    def _next_change(self, now: int) -> list[int]:
        """When a recorder is to be started or to take over."""
        current, coming = self._current, self._coming
        if coming is not None:
            if coming.live_ns is None:
                return []
            look_again = now + SECOND // (10 * coming.rate)
            return [now if current is None else max(coming.live_ns + overlap_ns(coming.rate), look_again)]
        if current is None:
            return [self._retry_ns] if self.may_begin else []
        if current.live_ns is None:
            return []
        due = max(self.pace.due(current), self._retry_ns)
        return [due if self.learnt.tick is not None else min(due, current.live_ns + SECOND)]

    def seen_enough(self, now: int, ns: int) -> bool:
        """Whether nothing is being watched that has not been watched for so long."""
        current = self._current
        return current is None or (current.live_ns is not None and now - current.live_ns >= ns)

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
        if self._current is not None and self._current.poll():
            self._writing.add(self._current)
            self._current = None
        for recorder in self._writing.written(now):
            self._finish(recorder, out)
        if self._retired or self.pace.rate == 0:
            self._let_go()
        else:
            self._watch(now)
            self._take_over(now)
        if self._current is None or self._current.live_ns is None:
            self._admit_hole(now, out)
        self._tell(out)
        return out

    @property
    def _recorders(self) -> list[Recorder]:
        """The oldest first."""
        return [item for item in (*self._writing.recorders, self._current, self._coming) if item is not None]

    def abandon(self) -> None:
        """Kill every recorder."""
        for recorder in self._recorders:
            recorder.abandon()
        self._current = self._coming = None
        self._writing.recorders.clear()

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

    def _let_go(self) -> None:
        """Nobody is to watch any more: what was seen until now is still delivered."""
        self.interrupt()
        self._writing.recorders, self._current, self._coming = self._recorders, None, None

    def _watch(self, now: int) -> None:
        """Keep one recorder running, and start the next one when its window is full."""
        current = self._current
        if current is None:
            if self._coming is None and now >= self._retry_ns and self.may_begin:
                self._current = self._try_start(now)
            return
        if current.live_ns is None:
            if now - current.started_ns > _START_NS:
                current.kill()
        elif self.learnt.tick is None and now - current.live_ns >= SECOND:
            # The next one begins only at the next step, so that its rate is planned with this.
            self.learnt.glance(current, (now - current.live_ns) / SECOND)
            self._measured = True
        elif self._coming is None and now >= max(self.pace.due(current), self._retry_ns):
            self._coming = self._try_start(now)
            self.pace.followed()

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
        elif self._current is None or self._covers(coming, now - coming.live_ns - overlap_ns(coming.rate)):
            if self._current is not None:
                self._current.stop()
                self._writing.add(self._current)
            self._current, self._coming = coming, None

    def _covers(self, coming: Recorder, ns: int) -> bool:
        """Whether it need not be covered any more, so many ns after both were to go on side by side."""
        return ns >= _SURELY_NS or (ns >= 0 and coming.sampled)

    def _try_start(self, now: int) -> Recorder | None:
        try:
            recorder = self._start(self.process.pid, self.pace.next_rate)
        except OSError as error:
            self._back_off(now)
            says = f"py-spy could not be started ({error}), so stacks are missing: gaptop goes on trying."
            self.trouble = CollectorError(says)
            return None
        self.pace.begun(recorder)
        return recorder

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
            lost = self._lost_by or "no sampling between two recorders"
            reason = self.trouble.says if self.trouble is not None else lost
            out.append(Hole(self.source, self.until, trace.covered[0], reason))
        self.trouble, self._failures, self._lost_by, self._measured = None, 0, "", True
        self.threads = dict(trace.threads)
        FOUND.tell(self.process, critical_tid(self.process, self.threads))
        seconds = (trace.covered[1] - trace.covered[0]) / SECOND
        self.learnt.window(recorder, seconds, error_ns, time.thread_time() - begun)
        self._seen, self.seen_ns = True, trace.covered[1]
        self.until = max(self.until if known is not None else 0, trace.covered[1])
        self._tell(out)
        if trace.covered[0] < trace.covered[1]:
            out.append(Stacks(self.source, trace.covered, trace.spans))
        out.append(Delivered(self.source, self.until))

    def _fail(self, recorder: Recorder, now: int) -> None:
        self._seen = True  # from here on the time since the last delivery is a hole, not a start
        if recorder.asked_ns is not None and recorder.code in _AS_ASKED:
            self._lost_by = pyspy_command.nothing_written(recorder.code, recorder.errors)
            return
        self.trouble = pyspy_command.explain(self.process.pid, recorder.output, recorder.code)
        # One that sampled and then broke down (py-spy can, on memory that changes as it reads) is followed at once.
        self._back_off(now, at_once=recorder.live_ns is not None and not self._failures)

    def _back_off(self, now: int, *, at_once: bool = False) -> None:
        self._retry_ns = now if at_once else now + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)] * SECOND
        self._failures += 1
        self.pace.forget_look()

    def _admit_hole(self, now: int, out: list[Message]) -> None:
        """Nobody watches: say so each second, unless older recorders have yet to write."""
        if now - self.until < SECOND or self._writing.recorders or self._retired:
            return
        reason = self.trouble.says if self.trouble is not None else self._idle_reason()
        self._tell(out)
        out.append(Hole(self.source, self.until, now, reason))
        out.append(Delivered(self.source, now))
        self.until, self._seen, self._lost_by = now, True, reason

    def _idle_reason(self) -> str:
        if self.pace.rate and self.may_begin:
            return "py-spy is starting"
        return RESTS if self.rests or self.pace.rate else LEFT_OUT

    def _tell(self, out: list[Message]) -> None:
        closer = next((item for item in (self._current, self._coming) if item and self.pace.is_closer(item)), None)
        info = describe(
            self.process,
            self.threads,
            rate=self.pace.usual_rate,
            closer=0 if closer is None else closer.rate,
            window=self.pace.window_ns / SECOND,
            learnt=self.learnt,
            over=self.over_budget,
            rests=self.rests,
            trouble=self.trouble,
        )
        if info != self._info:
            self._info = info
            out.append(info)
