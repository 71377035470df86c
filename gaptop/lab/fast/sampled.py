"""What one recorder writes of its process's threads: which stack each was seen in, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from gaptop.lab.fast.frames import Stack, stacks_of, strange_of, within
from gaptop.lab.fast.machine import ThreadOf
from gaptop.lab.fast.strange import Strange
from gaptop.lab.fast.threads import Did, ThreadLog
from gaptop.lab.fast.view import View
from gaptop.lab.fast.waits import WAIT
from gaptop_collectors.host.pyspy_roller import DELAY_TICKS

_WHOLE_TICKS: Final = 0.5
"""Of the reads that fail: py-spy drops the whole sample, so all threads are held where they were; of the others one
thread has no frame, and a gap."""
_NOBODY: Final = -1

Row = tuple[float, int, float, int]
"""Start, thread, end, stack."""


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


class Window(NamedTuple):
    """``errors``: share of the reads that failed."""

    rows: list[Row]
    new: dict[str, list[list[object]]]
    errors: float


class Sampled:
    """One process's threads at one rate."""

    def __init__(
        self,
        logs: Sequence[ThreadLog],
        idle: Sequence[ThreadOf],
        view: View,
        interned: Interned,
        rate: int,
        rng: Random,
    ) -> None:
        self.delay = DELAY_TICKS / rate
        self._logs = logs
        self._idle = idle
        self._view = view
        self._interned = interned
        self._rate = rate
        self._rng = rng
        self._dropped = view.failed * _WHOLE_TICKS
        self._empty = view.failed - self._dropped
        self._strange = {log.thread.tid: Strange(view.strange, Random(rng.random())) for log in logs}
        self._numbers: dict[tuple[int, str], list[int]] = {}
        self._unknown: dict[tuple[int, str], int] = {}
        self._new: dict[str, list[list[object]]] = {}

    def window(self, begun: float, end: float, off: float, start: float, until: float) -> Window:
        """Samples over [begun, end) of the simulation, told of [start, until) of the stream: ``off`` lies between
        them."""
        times = self._times(begun, end)
        rows: list[Row] = []
        self._new = {}
        tried = len(times)
        if self._dropped:
            times = [at for at in times if self._rng.random() >= self._dropped]
        for log in self._logs:
            self._sample(log, times, off - self.delay, start, until, rows)
        for thread in self._idle if times else ():
            number = self._learn(thread, WAIT)[0]
            rows.append((start, thread.tid, until, number))
        rows.sort()
        return Window(rows, self._new, 1 - len(times) / tried if tried else 0.0)

    def _times(self, begun: float, end: float) -> list[float]:
        draw, rate = self._rng.expovariate, self._rate
        found, at = [], begun + draw(rate)
        while at < end:
            found.append(at)
            at += draw(rate)
        return found

    def _sample(
        self, log: ThreadLog, times: Sequence[float], shift: float, start: float, until: float, rows: list[Row]
    ) -> None:
        """A stack is taken to have begun most of a mean interval before the sample that showed it, as the reader does;
        the first one reaches back to the window's start."""
        tid, spans, random, empty = log.thread.tid, iter(log.spans), self._rng.random, self._empty
        span = next(spans, None)
        strange = self._strange[tid] if self._view.strange else None
        last, since = _NOBODY, start
        known: list[int] = []
        first = True
        for at in times:
            while span is not None and span.end <= at:
                span, known = next(spans, None), []
            if span is None or span.start > at:
                break
            if empty and random() < empty:
                number = _NOBODY
            elif strange is not None and strange.sampled(span, at):
                number = self._unknown_of(log, span.phase)
            else:
                if not known:
                    known = self._known(log, span)
                number = known[0] if len(known) == 1 else known[int(random() * len(known))]
            if number != last:
                edge = start if first else max(start, round(at + shift, 6))
                if edge > since:
                    if last >= 0:
                        rows.append((since, tid, edge, last))
                    since = edge
                last = number
            first = False
        if last >= 0 and until > since:
            rows.append((since, tid, until, last))

    def _known(self, log: ThreadLog, span: Did) -> list[int]:
        return self._numbers.get((log.thread.tid, span.phase)) or self._learn(log.thread, span.phase)

    def _learn(self, thread: ThreadOf, phase: str) -> list[int]:
        """Numbers of the stacks of that phase, one of which is now and then of code that its frames call."""
        dialect = self._view.dialect
        stacks = stacks_of(thread.kind, phase, dialect, self._view.gc_callbacks)
        if self._view.strange and thread.tid in self._strange and self._strange[thread.tid].within(phase):
            stacks += within(thread.kind, phase, dialect)[:1]
        found = [self._interned.number(stack, self._new) for stack in stacks]
        self._numbers[thread.tid, phase] = found
        return found

    def _unknown_of(self, log: ThreadLog, phase: str) -> int:
        """One stack for all of a phase."""
        key = log.thread.tid, phase
        if key not in self._unknown:
            self._unknown[key] = self._interned.number(self._rng.choice(strange_of(log.thread.kind)), self._new)
        return self._unknown[key]
