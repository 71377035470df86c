"""Stack samples of one process, as a rolling py-spy writes them: at Poisson times, a state held from sample to sample.

The next recorder takes over at the end of a window, which is delivered once py-spy has written it, some tenths of a
second later. Until then nothing is said of that time. Where the budget pays for no recorder, a hole is declared each
second instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from gaptop.lab.fast.machine import ProcessOf
from gaptop.lab.fast.sampled import Interned, Sampled
from gaptop.lab.fast.threads import ThreadLog
from gaptop.lab.fast.told import source_line
from gaptop.lab.fast.view import View
from gaptop.recording.lines import Frames, Health, Hole, Line, Spans, Watermark
from gaptop_collectors.collector import CollectorError, SourceInfo
from gaptop_collectors.host.pyspy_budget import Plan, overlap_ns
from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_source import LEFT_OUT, RESTS, describe

NAME: Final = "host.threads_pyspy"
_BEGINS: Final = 0.6
"""Seconds after the probe's start until the first recorder samples."""
_APART: Final = 0.3
"""Between the first recorders of two processes."""
_SHORTER: Final = 0.5
"""So much shorter is the first window of each next process, so that they do not all end at one moment."""
_STEPS: Final = 4
_WRITES: Final = 0.3
"""Seconds after a window's end until its trace is read, and as much again at most."""
_TICKS: Final = 2
"""py-spy goes on for so many ticks after it was asked to write."""
_HOLES: Final = 1.0
"""Between two holes while nobody watches."""
_LATE: Final = 0.8
"""Share of the windows whose clock error makes them late: time zero is taken as late as what is known allows."""
_NOTHING: Final = 0.05
"""Seconds: a window is not asked for that is shorter."""


def refused(pid: int) -> CollectorError:
    """The sentence where py-spy may not attach, as the real check would say it of another user's server."""
    return CollectorError(
        f"The stacks of process {pid} may not be read because kernel.yama.ptrace_scope is 1 (only its own parent may), "
        "so no host cause can be proved there: run `sudo gaptop record -o - | gaptop open -`, or allow it with "
        "`sudo sysctl kernel.yama.ptrace_scope=0`; in a container, start it with `--cap-add SYS_PTRACE`.",
        state="refused",
    )


class StackSampler:
    """The source of one process, ``place`` in the line of those that are watched. ``rests``: see ``rests_of``."""

    def __init__(
        self,
        process: ProcessOf,
        logs: list[ThreadLog],
        view: View,
        interned: Interned,
        plan: Plan[int],
        rests: Sequence[tuple[float, float]],
        place: int,
        zero: float,
        rng: Random,
    ) -> None:
        self.source = f"threads/{process.pid}"
        self._process = process
        self._view = view
        self._zero = zero
        self._rng = rng
        self._plan = plan
        self.rate = plan.rates.get(process.pid, 0)
        self._rests = [(zero + _BEGINS + start, zero + _BEGINS + end) for start, end in rests]
        self._names = {log.thread.tid: log.thread.name for log in logs}
        self._names |= {thread.tid: thread.name for thread in process.idle}
        self._sampled = Sampled(logs, process.idle, view, interned, max(1, self.rate), rng) if self.rate else None
        self._begun = zero + _BEGINS + _APART * place + 0.1 * rng.random()
        self._shorter = min(place % _STEPS * _SHORTER, plan.window / 2)
        self._ends = 0.0
        self._until = self._begun if self.rate else zero + _BEGINS
        self._resting: tuple[float, float] | None = None
        self._learnt = Learnt()
        self._sent: SourceInfo | None = None
        self.due = zero + _BEGINS
        self.newest: float | None = None

    @property
    def reads_from(self) -> float:
        """What ended before this it will not look at again."""
        return self._begun if self.rate else float("inf")

    def act(self, now: float) -> Iterator[Line]:
        """First the description, then windows, or holes."""
        if self._sent is None:
            yield from self._tell(now)
            self._schedule()
        elif not self.rate:
            yield from self._hole(now, LEFT_OUT)
            self.due = now + _HOLES
        elif self._resting is not None:
            yield from self._rest(now, self._resting)
        else:
            yield from self._window(min(self._ends, now), now)
            self._schedule()

    def finish(self, now: float) -> Iterator[Line]:
        """The stream ends: the window so far."""
        if self._sent is not None and self.rate and self._resting is None and now > self._begun:
            yield from self._window(min(self._ends, now), now)

    def health(self, now: float) -> Health:
        says = self._sent.says if self._sent else ""
        return Health(self._t(now), self.source, NAME, "ok", self.newest, 0.5, None, says)

    def _schedule(self) -> None:
        """When the next window ends and comes: a rest ends it early, and what has begun waits for its next ticks."""
        if not self.rate:
            self.due = self._until + _HOLES
            return
        rest = next((item for item in self._rests if item[1] > self._begun), None)
        if rest is not None and rest[0] <= self._begun + _NOTHING:
            self._resting = rest
            self.due = max(rest[0], self._begun) + _HOLES
            return
        beside = overlap_ns(self.rate) / 1e9 + self._rng.gammavariate(_TICKS, 1 / self.rate)
        self._ends = self._begun + self._plan.window - self._shorter + beside
        self._shorter = 0.0
        if rest is not None:
            self._ends = min(self._ends, rest[0])
        self.due = self._ends + _WRITES * (1 + self._rng.random())

    def _rest(self, now: float, rest: tuple[float, float]) -> Iterator[Line]:
        """Nobody watches; up to the first sample after it the time is a hole."""
        if now < rest[1]:
            yield from self._tell(now, rests=True)
            yield from self._hole(now, RESTS)
            self.due = min(now + _HOLES, rest[1])
            return
        self._begun = now + 0.1 * self._rng.random()
        yield from self._tell(now)
        yield from self._hole(self._begun, RESTS)
        self._resting = None
        self._rests = [item for item in self._rests if item[1] > now]
        self._schedule()

    def _hole(self, until: float, why: str) -> Iterator[Line]:
        start, self._until = self._until, until
        yield Hole(self.source, self._t(start), self._t(until), why)
        self.newest = self._t(until)
        yield Watermark(self.source, self.newest)

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _tell(self, now: float, *, rests: bool = False) -> Iterator[Line]:
        """The description, where it has changed. Threads are named once they were seen."""
        info = describe(
            self._process.seen,
            self._names if self._learnt.clock_error else {},
            rate=0 if rests else self.rate,
            closer=0,
            window=self._plan.window,
            learnt=self._learnt,
            over=self._plan.over,
            rests=rests,
            trouble=None,
        )
        if info != self._sent:
            self._sent = info
            yield source_line(self._t(now), info)

    def _window(self, end: float, now: float) -> Iterator[Line]:
        """Its times are off by one amount, which is no more than the source then says."""
        assert self._sampled is not None
        begun, self._begun = self._begun, end
        error = self._view.clock_error_s * (1 - 0.8 * self._rng.random())
        off = error * (1 - self._rng.random()) * (1 if self._rng.random() < _LATE else -1)
        start, until = self._t(self._until), self._t(end + off - self._sampled.delay)
        if until <= start:
            return
        self._until = end + off - self._sampled.delay
        found = self._sampled.window(begun, end, off - self._zero, start, until)
        self._learnt.aligned(round(error * 1e9))
        self._learnt.error_share = found.errors
        yield from self._tell(now)
        if found.new:
            yield Frames(self.source, found.new)
        starts, tids, ends, numbers = zip(*found.rows, strict=True) if found.rows else ((), (), (), ())
        self.newest = until
        yield Spans(self.source, (start, until), tids, starts, ends, numbers)
        yield Watermark(self.source, until)
