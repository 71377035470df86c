"""Busy-waiting told from work in a pool of compute threads, as far as their times allow. Pure.

In OpenMP and in ggml's thread pool the main thread takes part in every parallel region. So in a pool that waits by
spinning, where the main thread too spins until the region has ended, a worker's time on a core beyond the time that
the main thread was on one or wanted one cannot be work. In a pool that sleeps it can: its main thread may sleep at the
end of its own share while a worker still has work to do. Which of the two a pool is shows when the main thread sleeps,
somewhere else than in the pool, for a whole window: do the others go on running?

What this cannot tell: a worker (or the main thread itself) that spins while the main thread runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

QUIET: Final = 0.05
"""A main thread that wanted a core for less of a window than this slept through it, but for a question answered."""
STEADY: Final = 0.8
"""A worker that wanted a core for this share of such a window did not sleep soon: it spins for tens of ms at least."""
PLAIN: Final = 0.05
"""The share of such a window that it must have run beyond what it may still have had to do."""
ASLEEP: Final = 0.1
"""A worker that wanted a core for less than this share of such a window has slept."""
BOOKED_NS: Final = 20_000_000
"""The kernel books a running thread's time at its ticks, 10 ms apart at most; two threads are compared."""


Sleep = Literal["pool", "elsewhere", "unclear", ""]


class Part(NamedTuple):
    """A thread's nanoseconds within one window: on a core, and waiting for one."""

    ran_ns: int
    waited_ns: int


class Main(NamedTuple):
    """The main thread within one window. ``runnable``: on a core or waiting for one when the window ended. ``sleep``:
    ``pool`` (seen asleep in the pool, at the end of its share), ``elsewhere`` (asleep at both ends of the window, and
    not in the pool: every region has ended), ``unclear`` (asleep at both ends, and it cannot be seen in what), or "".
    """

    part: Part
    runnable: bool
    sleep: Sleep


@dataclass(frozen=True, slots=True)
class Judged:
    """Nanoseconds of a pool in one window: work (or what may be), shown to be spinning, and work that may be spinning
    (a part of ``work_ns``)."""

    work_ns: int
    spun_ns: int = 0
    doubtful_ns: int = 0


@dataclass(slots=True)
class _Lag:
    """What a worker may still have to do of the time that the main thread had, and its wait in the window before."""

    credit_ns: int = BOOKED_NS
    waited_ns: int = 0


class Spin:
    """One pool's judge; ``spins`` is what it has shown last (None: nothing yet); ``may``: it can spin at all."""

    def __init__(self) -> None:
        self.spins: bool | None = None
        self.may = True
        self._was_quiet = True
        self._lags: dict[int, _Lag] = {}

    def judge(self, elapsed_ns: int, main: Main, following: Part | None, workers: Mapping[int, Part]) -> Judged:
        """One window, once the main thread's next one is known (None: it never will be)."""
        wanted = _wanted(elapsed_ns, main, following)
        quiet = wanted < QUIET * elapsed_ns
        self._lags = {tid: self._lags.get(tid) or _Lag() for tid in workers}
        done = quiet and main.sleep == "elsewhere"
        over = {tid: _over(self._lags[tid], wanted, part, done) for tid, part in workers.items()}
        steady = [tid for tid, part in workers.items() if sum(part) >= STEADY * elapsed_ns]
        if not self.may or main.sleep == "pool":
            self.spins = False
        elif quiet and main.sleep and any(over[tid] >= PLAIN * elapsed_ns for tid in steady):
            self.spins = True
        elif quiet and not self._was_quiet and all(sum(part) < ASLEEP * elapsed_ns for part in workers.values()):
            self.spins = False
        self._was_quiet = quiet
        ran = main.part.ran_ns + sum(part.ran_ns for part in workers.values())
        beyond = sum(over.values())
        if self.spins:
            return Judged(ran - beyond, beyond)
        return Judged(ran, 0, beyond if self.may else 0)


def _over(lag: _Lag, wanted_ns: int, part: Part, done: bool) -> int:
    """How long a worker ran beyond the main thread's wish and beyond what it owes: its time is booked at ticks, and
    unless the regions are ``done`` it may have lagged behind the main thread while it waited for a core."""
    if done:
        lag.credit_ns = min(lag.credit_ns, BOOKED_NS)
    late = part.waited_ns + lag.waited_ns
    lag.waited_ns = part.waited_ns
    spare = wanted_ns - part.ran_ns
    if spare >= 0:
        lag.credit_ns = min(lag.credit_ns + spare, late + BOOKED_NS)
        return 0
    owed = min(-spare, lag.credit_ns)
    lag.credit_ns -= owed
    return -spare - owed


def _wanted(elapsed_ns: int, main: Main, following: Part | None) -> int:
    """At most so long the main thread was on a core or waited for one. A wait that lasts at the window's end is only
    booked in the window in which it ends; more than the window is what was booked late."""
    wanted = sum(main.part)
    if not main.runnable:
        return wanted
    if following is None or following.ran_ns == 0:
        return max(elapsed_ns, wanted)
    return wanted + following.waited_ns
