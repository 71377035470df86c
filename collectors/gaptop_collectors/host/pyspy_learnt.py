"""What the recorders of one process have told about their own cost, errors and speed."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from gaptop_collectors.host.pyspy_budget import READING, START_CPU, Load, guessed_tick
from gaptop_collectors.host.pyspy_recorder import Recorder

_MOST_SLOWED: Final = 4.0
_OVERHEAD: Final = 0.007
"""CPU seconds of ours for starting a recorder and emptying its pipes; the reading of its trace is measured."""
_TRUST: Final = 20
"""Ticks: what was known before counts as much as so many new ones. They come at Poisson times, so few tell little."""
_DOUBT: Final = 3
"""Ticks that a first guess counts."""
_REMEMBERED: Final = 8
"""Windows whose clock error is stated: half a minute at least, longer than a valley waits for its verdict."""
_SECOND: Final = 1_000_000_000


class Learnt:
    """``tick`` (None, and ``guess`` in its stead, until it is known), ``start`` and ``reading`` are CPU seconds of one
    sample, of a recorder's start and of our own work on its trace. ``slowed`` divides the rate since py-spy fell
    behind. ``error_share`` of its reads failed in the last window.
    """

    def __init__(self) -> None:
        self.tick: float | None = None
        self.guess = guessed_tick(1)
        self.start = START_CPU
        self.reading = READING
        self.slowed = 1.0
        self.error_share = 0.0
        self._errors: deque[float] = deque(maxlen=_REMEMBERED)
        self._threads = 1
        self._slowed_by: Recorder | None = None

    @property
    def clock_error(self) -> float:
        """Seconds: the worst of the newest windows. One starved start, long ago, says nothing of today's."""
        return max(self._errors, default=0.0)

    @property
    def likely_tick(self) -> float:
        """By what is known, or else guessed."""
        return self.guess if self.tick is None else self.tick

    @property
    def thread(self) -> float:
        """What a sample costs for each of the process's threads."""
        return self.likely_tick / self._threads

    @property
    def hand_over(self) -> float:
        return self.start + self.reading

    def guess_from(self, threads: int, thread: float | None) -> None:
        """So many threads has the process that is not known yet; ``thread`` is the cost of one of a sibling's."""
        self._threads = max(1, threads)
        self.guess = guessed_tick(threads) if thread is None else guessed_tick(threads, thread)

    def load(self, key: tuple[int, int], critical: bool) -> Load[tuple[int, int]]:
        """For the budget."""
        known = self.tick is not None
        return Load(key, critical, self.likely_tick, self.start, self.reading, known)

    def glance(self, recorder: Recorder, seconds: float) -> None:
        """What a start and a sample cost, from a first recorder that has run for so long, before the next one."""
        if recorder.start_seconds:
            self.start = recorder.start_seconds
        used = recorder.used_seconds() - self.start
        self.tick = (max(0.0, used) + _DOUBT * self.guess) / (seconds * recorder.rate + _DOUBT)

    def falls_behind(self, recorder: Recorder) -> bool:
        """Whether py-spy says so now and had not said so of this recorder before: the next one is to be slower."""
        if not recorder.behind or recorder is self._slowed_by:
            return False
        self._slowed_by = recorder
        self.slowed = min(_MOST_SLOWED, self.slowed * 1.5)
        return True

    def aligned(self, error_ns: int) -> None:
        """How far the clock of a window may be off. In whole hundredths: a source is described anew at each change."""
        self._errors.append(math.ceil(error_ns / _SECOND * 100) / 100)

    def window(self, recorder: Recorder, seconds: float, error_ns: int, reading: float) -> None:
        """A recorder has ended well; its window has so many seconds, and its trace took ``reading`` seconds of CPU."""
        self.aligned(error_ns)
        self.error_share = recorder.error_share
        if recorder.code == 0 and seconds > 0.5:
            start = recorder.start_seconds or START_CPU
            used, ticks = max(0.0, recorder.cpu_seconds - start), seconds * recorder.rate
            self.tick = used / ticks if self.tick is None else (used + _TRUST * self.tick) / (ticks + _TRUST)
            self.start = 0.6 * self.start + 0.4 * start
            self.reading = 0.6 * self.reading + 0.4 * (_OVERHEAD + reading)
        if not self.falls_behind(recorder) and recorder is not self._slowed_by:
            self.slowed = max(1.0, self.slowed * 0.9)
