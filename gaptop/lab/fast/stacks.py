"""Stack samples of one process, as a rolling py-spy writes them: at Poisson times, a state held from sample to sample.

The next recorder takes over each few seconds; a window is delivered once py-spy has written it, some tenths of a second
after its end. Until then nothing is said of that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from gaptop.lab.fast.frames import Stack, stacks_of
from gaptop.lab.fast.machine import ProcessOf
from gaptop.lab.fast.threads import ThreadLog
from gaptop.lab.fast.told import source_line
from gaptop.lab.fast.view import View
from gaptop.recording.lines import Frames, Health, Line, Spans, Watermark
from gaptop_collectors.collector import CollectorError, SourceInfo
from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_source import describe

NAME: Final = "host.threads_pyspy"
WINDOW: Final = 4.0
FRONT_SHARE: Final = 1 / 3
"""Of the engine's rate, for the front end: what the budget gives it at its defaults."""
SLOWEST: Final = 5.0
_BEGINS: Final = 0.6
"""Seconds after the probe's start until the first recorder samples."""
_WRITES: Final = 0.3
"""Seconds after a window's end until its trace is read, and as much again at most: py-spy writes at its next tick."""
_CLOCK_ERROR_NS: Final = 20_000_000


def refused(pid: int) -> CollectorError:
    """The sentence where py-spy may not attach, as the real check would say it of another user's server."""
    return CollectorError(
        f"The stacks of process {pid} may not be read because kernel.yama.ptrace_scope is 1 (only its own parent may), "
        "so no host cause can be proved there: run `sudo gaptop record -o - | gaptop open -`, or allow it with "
        "`sudo sysctl kernel.yama.ptrace_scope=0`; in a container, start it with `--cap-add SYS_PTRACE`.",
        state="refused",
    )


class Interned:
    """Numbers of stacks, for all processes together."""

    def __init__(self) -> None:
        self._numbers: dict[Stack, int] = {}

    def number(self, stack: Stack, new: dict[str, list[list[object]]]) -> int:
        """Its number; a stack that had none is put into ``new``."""
        known = self._numbers.get(stack)
        if known is None:
            known = self._numbers[stack] = len(self._numbers)
            new[str(known)] = [list(frame) for frame in stack]
        return known


class StackSampler:
    """The source of one process."""

    def __init__(
        self,
        process: ProcessOf,
        logs: list[ThreadLog],
        view: View,
        interned: Interned,
        zero: float,
        rng: Random,
    ) -> None:
        assert view.stacks_hz is not None
        self.source = f"threads/{process.pid}"
        self._process = process
        self._logs = logs
        self._view = view
        self._interned = interned
        self._zero = zero
        self._rng = rng
        critical = process.role in ("engine", "worker", "server")
        self.rate = view.stacks_hz if critical else min(view.stacks_hz, max(SLOWEST, view.stacks_hz * FRONT_SHARE))
        self._begun = zero + _BEGINS + 0.1 * rng.random()
        self._ends = self._begun + WINDOW
        self.due = zero + _BEGINS
        self._numbers: dict[tuple[int, str], list[int]] = {}
        self._new: dict[str, list[list[object]]] = {}
        self._learnt = Learnt()
        self._sent: SourceInfo | None = None
        self.newest: float | None = None

    @property
    def reads_from(self) -> float:
        """What ended before this it will not look at again."""
        return self._begun

    def act(self, now: float) -> Iterator[Line]:
        """First the description, then a window each few seconds."""
        if self._sent is None:
            yield self._tell(now, named=False)
            self._schedule()
            return
        yield from self._window(min(self._ends, now), now)
        self._schedule()

    def finish(self, now: float) -> Iterator[Line]:
        """The stream ends: the window so far."""
        if self._sent is not None and now > self._begun:
            yield from self._window(min(self._ends, now), now)

    def health(self, now: float) -> Health:
        says = self._sent.says if self._sent else ""
        return Health(self._t(now), self.source, NAME, "ok", self.newest, 0.5, None, says)

    def _schedule(self) -> None:
        self._ends = self._begun + WINDOW
        self.due = self._ends + _WRITES * (1 + self._rng.random())

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _tell(self, now: float, *, named: bool) -> Line:
        self._sent = describe(
            self._process.seen,
            {log.thread.tid: log.thread.name for log in self._logs} if named else {},
            rate=max(1, round(self.rate)),
            closer=0,
            window=WINDOW,
            learnt=self._learnt,
            over=False,
            rests=False,
            trouble=None,
        )
        return source_line(self._t(now), self._sent)

    def _window(self, end: float, now: float) -> Iterator[Line]:
        begun, self._begun = self._begun, end
        times = self._times(begun, end)
        rows: list[tuple[float, int, float, int]] = []
        self._new = {}
        for log in self._logs:
            self._sample(log, times, begun, end, rows)
        rows.sort()
        if not self._learnt.clock_error:
            self._learnt.aligned(_CLOCK_ERROR_NS)
            yield self._tell(now, named=True)
        if self._new:
            yield Frames(self.source, self._new)
        starts, tids, ends, numbers = zip(*rows, strict=True) if rows else ((), (), (), ())
        self.newest = self._t(end)
        yield Spans(self.source, (self._t(begun), self.newest), tids, starts, ends, numbers)
        yield Watermark(self.source, self.newest)

    def _times(self, begun: float, end: float) -> list[float]:
        draw, rate = self._rng.expovariate, self.rate
        found, at = [], begun + draw(rate)
        while at < end:
            found.append(at)
            at += draw(rate)
        return found

    def _sample(
        self,
        log: ThreadLog,
        times: list[float],
        begun: float,
        end: float,
        rows: list[tuple[float, int, float, int]],
    ) -> None:
        """A stack is taken to have begun one mean interval before the sample that showed it, as the reader does."""
        tid, spans = log.thread.tid, iter(log.spans)
        span = next(spans, None)
        last, since, delay = -1, self._t(begun), 1 / self.rate
        known: list[int] = []
        for at in times:
            while span is not None and span.end <= at:
                span, known = next(spans, None), []
            if span is None or span.start > at:
                break
            if not known:
                known = self._numbers.get((tid, span.phase)) or self._learn(log, span.phase)
            number = known[0] if len(known) == 1 else known[int(self._rng.random() * len(known))]
            if number != last:
                start = self._t(max(begun, at - delay))
                if last >= 0 and start > since:
                    rows.append((since, tid, start, last))
                    since = start
                last = number
        until = self._t(end)
        if last >= 0 and until > since:
            rows.append((since, tid, until, last))

    def _learn(self, log: ThreadLog, phase: str) -> list[int]:
        stacks = stacks_of(log.kind, phase, self._view.dialect, self._view.gc_callbacks)
        known = [self._interned.number(stack, self._new) for stack in stacks]
        self._numbers[log.thread.tid, phase] = known
        return known
