"""How fast each process may be sampled, so that all recorders together stay inside their share of a core. Pure.

Rates and windows are planned by what a sample and a hand-over are known to cost; :class:`Purse` holds the plan against
what was really spent, so that a wrong guess is paid back and the share holds whatever anything costs.

First guesses (py-spy 0.4.3): a hand-over takes 18 ms of CPU a process, half of it py-spy's start and half our reading
of its trace; a tick takes 27 us for each Python thread with a shallow stack on a quiet host, but 140 us were measured
for stacks of six frames in a crowded virtual machine, so the first guess is the dearer one. Callers put in what they
have measured since.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

BUDGET: Final = 0.04
"""Share of one core for all recorders together."""
RESERVE: Final = 0.005
"""Part of it that is kept for closer looks; see :class:`Purse`."""
WINDOWS: Final = (4.0, 6.0, 8.0)
"""Seconds. Longer ones (whole multiples of the shortest) only where hand-overs alone would eat the budget: a verdict
waits for the end of a window."""
LONGEST_WINDOW: Final = 32.0
_FOR_HAND_OVERS: Final = 0.3
"""Share of the budget that hand-overs may take before windows grow beyond the usual."""
FASTEST: Final = 50
SLOWEST: Final = 5
"""Hz under which front ends are left out, for the sake of the critical processes."""
_LEAST: Final = 1
"""Hz that critical processes get in any case: py-spy knows no slower rate. Where it passes the budget (``Plan.over``),
the purse makes them rest between whiles."""
_GOOD: Final = 15
"""Hz under which critical threads get longer windows instead."""
FIRST_RATE: Final = 20
"""Of a process of which nothing has told yet what a sample costs there."""
START_CPU: Final = 0.009
READING: Final = 0.009
_GUESSED_THREAD: Final = 150e-6
_FRONT_END_SHARE: Final = 0.25
FAST_WINDOW: Final = 1.0
FAST_RATE: Final = 100
_OVERLAP_TICKS: Final = 5
_OVERLAP: Final = 0.5
_WORTH: Final = 1.5
"""A closer look that is not at least so many times as fast is not taken."""
MOST_SAVED: Final = 0.3
_DEEPEST: Final = 0.3
"""CPU seconds of debt (8 s of the budget) at which recorders rest until it is paid back, where being slow does not."""
_BOTTOMLESS: Final = 2.4
"""A debt, a minute of the budget, at which they rest even though they have hardly begun."""
_PAY_BACK: Final = 60.0
"""Seconds over which a smaller debt is paid back by slower rates."""

Key = TypeVar("Key", bound=Hashable)


def guessed_tick(threads: int, thread: float = _GUESSED_THREAD) -> float:
    """CPU seconds of one sample of a process that is not known yet: every thread is taken for one with Python stacks,
    or for one that costs ``thread``, as those of its siblings do."""
    return thread * max(1, threads)


def overlap_ns(rate: int) -> int:
    """How long the recorder before goes on beside the next one: sampling is Poisson, so that in 5 ticks the next one
    has looked in 99 % of cases. Where ticks are rare and dear, an ordinary gap at the seam is the smaller evil.
    """
    return round(1e9 * _overlap(rate))


def writing_ns(rate: int) -> int:
    """How long a recorder may take to write: it does so two ticks after it was asked to, which may be some mean
    intervals away, and on a crowded machine it waits for a core (1.9 s were seen)."""
    return 10_000_000_000 + 8_000_000_000 // rate


def _overlap(rate: float) -> float:
    return min(_OVERLAP_TICKS / rate, _OVERLAP)


@dataclass(frozen=True, slots=True)
class Load(Generic[Key]):
    """One process: ``critical`` ones hold the device's next step in their hands; ``tick`` is seconds of CPU per sample,
    ``start`` those of starting a recorder, ``reading`` those of our own work on what it wrote. ``known``: measured.
    """

    key: Key
    critical: bool
    tick: float
    start: float = START_CPU
    reading: float = READING
    known: bool = True

    @property
    def hand_over(self) -> float:
        return self.start + self.reading


@dataclass(frozen=True, slots=True)
class Plan(Generic[Key]):
    """Seconds of a window, and samples a second by process; a process that is left out has no rate. ``share`` of a core
    is what it will cost; ``over``: more than the whole budget, since nothing can be left out or slowed any more;
    ``fits``: no more than what it was planned with.
    """

    window: float
    rates: dict[Key, int]
    share: float = 0.0
    over: bool = False
    fits: bool = True


class Purse:
    """CPU seconds that are left of the budget by measurement; below zero is a debt. What is saved pays for early
    hand-overs and closer looks, a debt for its part lowers the plan, and a deep one stops everything for a while: the
    share over any long time is the budget, whatever a start or a sample turns out to cost.
    """

    def __init__(self, saved: float = 0.1) -> None:
        self.saved = saved
        self.empty = False
        """Whether recorders have to rest: from a deep debt on until it is paid back."""

    def settle(self, seconds: float, spent: float, most: float = MOST_SAVED) -> None:
        """So many seconds went by, in which recorders and our own work for them used ``spent`` seconds of CPU; no more
        than ``most`` is saved of what was left. A debt is paid out of the plan's own part of the budget."""
        earned = seconds * (BUDGET if self.saved >= 0 else BUDGET - RESERVE)
        self.saved = min(most, self.saved + earned - spent)
        if self.saved >= 0:
            self.empty = False

    def judge(self, *, slow_enough: bool, seen_enough: bool) -> None:
        """``slow_enough``: the plan pays it back; ``seen_enough``: every recorder was worth its start by now."""
        rest = self.saved < -_BOTTOMLESS or (self.saved < -_DEEPEST and seen_enough and not slow_enough)
        self.empty = self.empty or rest

    @property
    def may_begin(self) -> bool:
        """Whether one more process can be started to watch: what a start costs here may not be known yet."""
        return not self.empty and self.saved > -_DEEPEST

    @property
    def for_plan(self) -> float:
        """The share of a core to plan with."""
        return BUDGET - RESERVE + min(0.0, self.saved) / _PAY_BACK


def make_plan(loads: Sequence[Load[Key]], *, fast: bool = False, budget: float = BUDGET - RESERVE) -> Plan[Key]:
    """Rates by the budget. Windows grow before critical processes go under 15 Hz; front ends are left out last.

    ``fast`` is the user's own wish: 100 Hz and windows of one second, whatever they cost.
    """
    if fast:
        rates = {load.key: FAST_RATE for load in loads}
        return Plan(FAST_WINDOW, rates, _share(loads, rates, FAST_WINDOW))
    for window in WINDOWS:
        plan = _within(loads, window, budget)
        critical = [plan.rates.get(load.key, 0) for load in loads if load.critical]
        if len(plan.rates) == len(loads) and min(critical, default=_GOOD) >= _GOOD:
            return plan
    hand_overs = sum(load.hand_over for load in loads if load.key in plan.rates)
    if hand_overs <= _FOR_HAND_OVERS * BUDGET * plan.window:
        return plan
    shortest = WINDOWS[0]
    window = shortest * math.ceil(hand_overs / (_FOR_HAND_OVERS * BUDGET) / shortest)
    return _within(loads, min(LONGEST_WINDOW, window), budget)


def closer(loads: Sequence[Load[Key]], plan: Plan[Key], seconds: float, saved: float) -> int | None:
    """The rate for the critical processes over so many seconds that what was saved pays for, hand-over included; None
    where that is not worth it."""
    looked = [load for load in loads if load.critical] or list(loads)
    rates = [plan.rates[load.key] for load in looked if load.key in plan.rates]
    if not rates or not all(load.known for load in looked):
        return None
    tick = sum(load.tick for load in looked)
    left = saved - sum(load.hand_over for load in looked) - _OVERLAP_TICKS * tick
    more = left / (tick * seconds) if tick > 0 else float(FAST_RATE)
    rate = int(min(FAST_RATE, min(rates) + more))
    return rate if rate >= _WORTH * max(rates) else None


def _within(loads: Sequence[Load[Key]], window: float, budget: float) -> Plan[Key]:
    front = [load for load in loads if not load.critical]
    critical = [load for load in loads if load.critical] or front
    if critical is front:
        front = []
    for kept in range(len(front), -1, -1):
        left = budget - sum(load.hand_over for load in [*critical, *front[:kept]]) / window
        share = left * _FRONT_END_SHARE if kept else 0.0
        slow = _rate(front[:kept], share, window)
        quick = _rate(critical, left - sum(slow * load.tick for load in front[:kept]), window)
        if not kept or (slow >= SLOWEST and quick >= SLOWEST):
            break
    quick = max(quick, _LEAST)
    rates = {load.key: int(quick) for load in critical}
    rates.update({load.key: int(min(slow, quick)) for load in front[:kept]})
    rates = {load.key: _first(load, rates[load.key]) for load in loads if load.key in rates}
    share = _share(loads, rates, window)
    return Plan(window, rates, share, share > BUDGET, share <= budget)


def _first(load: Load[Key], rate: int) -> int:
    return rate if load.known else min(rate, FIRST_RATE)


def _share(loads: Sequence[Load[Key]], rates: dict[Key, int], window: float) -> float:
    watched = [(load, rates[load.key]) for load in loads if rates.get(load.key)]
    return sum(load.hand_over / window + rate * load.tick * (1 + _overlap(rate) / window) for load, rate in watched)


def _rate(loads: Sequence[Load[Key]], share: float, window: float) -> float:
    """The rate at which samples take this share of a core, those of two recorders at once included."""
    tick = sum(load.tick for load in loads)
    if tick <= 0:
        return float(FASTEST)
    rare = share / tick / (1 + _OVERLAP / window)
    rate = rare if rare < _OVERLAP_TICKS / _OVERLAP else share / tick - _OVERLAP_TICKS / window
    return min(float(FASTEST), rate)
