"""One collector on one thread: deadlines, isolation, retries, cost, health."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from gaptop.probe.pace import MOST_STRETCH, SHARE, Backoff, Budget
from gaptop.probe.sentences import not_answering, over_budget, said_by, slow_call
from gaptop.probe.sources import SourceBook
from gaptop.recording.lines import Health, Hole, Line
from gaptop.recording.redact import redact
from gaptop_collectors.collector import Batch, Collector, CollectorError, Json, Message, Note, Recorder, State

_log: Final = logging.getLogger(__name__)
_OPEN_DEADLINE: Final = 5.0
_WHY_HOLE: Final = {
    "failing": "reading it fails",
    "absent": "it is not there",
    "refused": "no right to read it",
    "ended": "it is not in use any more",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A collector to be made on its own thread. ``make`` may raise CollectorError, or ImportError for a dependency
    that is missing. ``share()`` of a core is its budget as it is now, held by a period up to ``most_stretch`` times as
    long. A ``recorder`` (its collector is one) delivers in windows: a boost makes it hand over early, and at the end it
    is asked for the last one."""

    name: str
    make: Callable[[], Collector]
    share: Callable[[], float] = lambda: SHARE
    most_stretch: int = MOST_STRETCH
    recorder: bool = False


class Exit(Protocol):
    """Where a runner sends what its collector says."""

    def accept(self, runner: Runner, messages: Sequence[Message]) -> None:
        """Translate and write messages, in order; calls ``runner.told`` with their lines."""
        ...

    def write(self, lines: Iterable[Line]) -> None: ...

    def seconds(self) -> float:
        """Now, in seconds of the stream."""
        ...

    def log_hint(self) -> str:
        """Where the log is, for a sentence."""
        ...


class Runner:
    """Drives one collector until :meth:`stop`. Everything that another thread may touch is guarded by one lock."""

    def __init__(self, plan: Plan, way_out: Exit) -> None:
        self.plan = plan
        self._out = way_out
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._stopping = self._finish = False
        self._collector: Collector | None = None
        self._book = SourceBook()
        self._budget = Budget(plan.share, plan.most_stretch)
        self._state: State = "starting"
        self._says = ""
        self._entered: tuple[State, str] = (self._state, "")
        self._busy: tuple[str, float, float] | None = None
        self._late = False
        self._crashes = Backoff(worked=False)
        self._thread = threading.Thread(target=self._run, name=plan.name, daemon=True)

    # Called by the main loop.

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, finish: bool) -> None:
        """Ask it to close its collector and end; does not wait. With ``finish`` a recorder delivers its last window."""
        with self._lock:
            self._stopping, self._finish = True, finish and self.plan.recorder
            self._wake.notify_all()

    def join(self, timeout: float) -> bool:
        """Whether it has ended within so many seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def boost(self, seconds: float) -> None:
        """Have the collector look closer for a while."""
        collector = self._collector
        if collector is None:
            return
        try:
            collector.boost(seconds)
        except Exception:
            _log.exception("%s.boost() failed", self.plan.name)
        with self._lock:
            # Its period may have become shorter.
            self._wake.notify_all()

    def check(self, now: float) -> list[Line]:
        """Health lines if a call has just become late, else none; ``now`` is time.monotonic()."""
        with self._lock:
            if self._busy is None or self._late or now - self._busy[1] <= self._busy[2]:
                return []
            self._late = True
            return self._health()

    def health(self) -> list[Line]:
        """One line for every source, or for the collector while it has none."""
        with self._lock:
            return self._health()

    def holes(self) -> list[Hole]:
        """What must be declared as not delivered by now."""
        with self._lock:
            return list(self._book.holes(self._out.seconds(), _WHY_HOLE.get(self._state, "")))

    def told(self, lines: Sequence[Line]) -> None:
        """These lines of the collector are being written."""
        with self._lock:
            self._book.note(lines, self._out.seconds())

    # The collector's own thread.

    def _run(self) -> None:
        try:
            while (due := self._open_until_it_works()) is not None:
                if not self._sample_until_it_breaks(due):
                    break
            self._deliver_the_last()
        finally:
            self._close()

    def _open_until_it_works(self) -> float | None:
        """When the first sample is due; None where it is not to be opened any more."""
        backoff = Backoff(worked=bool(self._book))
        while not self._stopping:
            try:
                known = bool(self._book)
                messages = self._timed("open", self._open)
                opened = time.monotonic()
                self._hand_out(messages)
                if self._book and not known:
                    self._out.write([self._gives_way_to_its_sources()])
                if not self._crashes.failures:
                    # After a crash only a reading shows that it works again.
                    self._enter("ok", "")
                # One step in the 12 ms to a look right behind the first would read as 80 a second.
                read = any(isinstance(message, Batch) and message.times_ns for message in messages)
                return opened + ((self._period() or 0.0) if read else 0.0)
            except Exception as error:
                retry = self._failed(error, "open")
                self._close()
            if not retry or not self._pause(backoff.failed()):
                return None
        return None

    def _open(self) -> Sequence[Message]:
        self._collector = self.plan.make()
        return self._collector.open()

    def _sample_until_it_breaks(self, due: float) -> bool:
        """Sample from ``due`` on; whether the collector should be opened again."""
        backoff = Backoff(worked=True)
        collector = self._collector
        assert collector is not None
        while self._pause_until(due, collector):
            started, cpu = time.monotonic(), time.thread_time()
            try:
                self._hand_out(self._timed("sample", collector.sample))
            except CollectorError as error:
                if not self._failed(error, "sample"):
                    return False
                if not self._pause(backoff.failed()):
                    return False
                due = time.monotonic()
                continue
            except Exception as error:
                self._failed(error, "sample")
                self._close()
                return self._pause(self._crashes.failed())
            self._budget.spend(time.thread_time() - cpu, time.monotonic(), collector.period)
            backoff.succeeded()
            self._crashes.succeeded()
            self._works()
            interval = collector.period * self._budget.stretch
            due = due + interval if due + interval > started else started + interval
        return False

    def _hand_out(self, messages: Sequence[Message]) -> None:
        # Most looks at threads have nothing to tell yet, and a turn through the stream's lock costs as much as a look.
        if messages:
            self._out.accept(self, messages)

    def _pause_until(self, due: float, collector: Collector) -> bool:
        """Wait for the next sample, earlier when the period has become shorter; False when asked to stop."""
        begun = time.monotonic()
        with self._lock:
            while not self._stopping:
                now = time.monotonic()
                left = min(due, begun + collector.period * self._budget.stretch) - now
                if left <= 0:
                    return True
                self._wake.wait(left)
        return False

    def _pause(self, seconds: float) -> bool:
        with self._lock:
            self._wake.wait_for(lambda: self._stopping, seconds)
            return not self._stopping

    def _timed(self, what: str, function: Callable[[], Sequence[Message]]) -> Sequence[Message]:
        started = time.monotonic()
        deadline = _OPEN_DEADLINE if what == "open" or self._collector is None else self._collector.deadline
        with self._lock:
            self._busy = (what, started, deadline)
        try:
            return function()
        finally:
            took = time.monotonic() - started
            with self._lock:
                self._busy = None
                was_late, self._late = self._late, False
                recovered = self._health() if was_late and not self._stopping else []
            if recovered:
                self._out.write(recovered)
            if took > deadline and not self._stopping:
                says = slow_call(self.plan.name, what, took)
                data: dict[str, Json] = {"collector": self.plan.name, "seconds": round(took, 3), "call": what}
                self._out.accept(self, [Note(time.monotonic_ns(), "our_slow_call", says, data=data)])

    def _failed(self, error: Exception, what: str) -> bool:
        """Enter the state that the error means; whether trying again can help."""
        if not isinstance(error, CollectorError | ModuleNotFoundError):
            _log.exception("%s.%s() failed", self.plan.name, what, exc_info=error)
        state, says, retry = said_by(error, self.plan.name, self._out.log_hint())
        self._enter(state, says)
        return retry

    def _works(self) -> None:
        if self._budget.stretch == 1:
            self._enter("ok", "")
            return
        says = over_budget(*self._budget.over, self._budget.share, self._budget.stretch, self._period() or 0.0)
        # Its period moves with each boost; one line a second is enough.
        self._enter("backoff", says, tell=self._state != "backoff")

    def _period(self) -> float | None:
        collector = self._collector
        return None if collector is None else collector.period * self._budget.stretch

    def _enter(self, state: State, says: str, *, tell: bool = True) -> None:
        if (state, says) == self._entered:
            return  # as after nearly every sample
        self._entered = state, says
        with self._lock:
            self._state, self._says = state, redact(says)
            if not tell or self._stopping:
                return
            lines = self._health()
            if state in _WHY_HOLE:
                lines.extend(self._book.holes(self._out.seconds(), _WHY_HOLE[state]))
        self._out.write(lines)

    def _gives_way_to_its_sources(self) -> Line:
        """The last health line under the collector's own name: from now on each of its sources has one."""
        return Health(self._out.seconds(), self.plan.name, self.plan.name, "ended")

    def _health(self) -> list[Line]:
        state, says = self._state, self._says
        if self._late and self._busy is not None:
            state, says = "late", not_answering(self.plan.name, time.monotonic() - self._busy[1])
        cost = None if self._budget.cost is None else round(self._budget.cost, 5)
        return list(self._book.health(self._out.seconds(), self.plan.name, state, self._period(), cost, says))

    def _deliver_the_last(self) -> None:
        collector = self._collector
        if collector is None or not self._finish:
            return
        try:
            self._hand_out(cast(Recorder, collector).finish())
        except Exception:
            _log.exception("%s.finish() failed", self.plan.name)

    def _close(self) -> None:
        collector, self._collector = self._collector, None
        if collector is None:
            return
        try:
            collector.close()
        except CollectorError as error:
            _log.warning("%s.close(): %s", self.plan.name, error.says)
        except Exception:
            _log.exception("%s.close() failed", self.plan.name)
