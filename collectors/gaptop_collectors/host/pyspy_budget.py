"""How fast each process may be sampled, so that all recorders together stay inside their share of a core. Pure.

First guesses (py-spy 0.4.3): a hand-over takes 18 ms of CPU a process, half of it py-spy's start and half our reading
of its trace; a tick takes 27 us for each Python thread and 4 us for each native one on a quiet host with shallow
stacks, so twice that is planned with. Callers put in what they have measured since.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

BUDGET: Final = 0.04
"""Share of one core for all recorders together."""
WINDOWS: Final = (4.0, 6.0, 8.0)
"""Seconds. Not longer: a verdict waits for the end of a window."""
FASTEST: Final = 50
SLOWEST: Final = 5
_GOOD: Final = 15
"""Hz under which critical threads get longer windows instead."""
_LEAST: Final = 10
"""Hz that one engine and its worker get in any case, since less tells little about a valley: for starved hosts only."""
START_CPU: Final = 0.009
_READING: Final = 0.009
_PYTHON_THREAD: Final = 2 * 27e-6
_NATIVE_THREAD: Final = 2 * 4e-6
_FRONT_END_SHARE: Final = 0.25
FAST_WINDOW: Final = 1.0
FAST_RATE: Final = 100

Key = TypeVar("Key", bound=Hashable)


def tick_seconds(python_threads: int, native_threads: int) -> float:
    """CPU seconds of one sample of a process, by the model."""
    return _PYTHON_THREAD * python_threads + _NATIVE_THREAD * native_threads


@dataclass(frozen=True, slots=True)
class Load(Generic[Key]):
    """One process: ``critical`` ones hold the device's next step in their hands; ``tick`` is seconds of CPU per sample,
    ``start`` those of starting a recorder.
    """

    key: Key
    critical: bool
    tick: float
    start: float = START_CPU


@dataclass(frozen=True, slots=True)
class Plan(Generic[Key]):
    """Seconds of a window, and samples a second by process; a process that is left out has no rate."""

    window: float
    rates: dict[Key, int]


def make_plan(loads: Sequence[Load[Key]], *, fast: bool = False, budget: float = BUDGET) -> Plan[Key]:
    """Rates by the budget. Windows grow before critical processes go under 15 Hz; front ends are left out last.

    ``fast`` is the user's own wish: 100 Hz and windows of one second, whatever they cost.
    """
    if fast:
        return Plan(FAST_WINDOW, {load.key: FAST_RATE for load in loads})
    for window in WINDOWS:
        plan = _within(loads, window, budget)
        critical = [plan.rates.get(load.key, 0) for load in loads if load.critical]
        if len(plan.rates) == len(loads) and min(critical, default=_GOOD) >= _GOOD:
            return plan
    return plan


def _within(loads: Sequence[Load[Key]], window: float, budget: float) -> Plan[Key]:
    front = [load for load in loads if not load.critical]
    critical = [load for load in loads if load.critical] or front
    if critical is front:
        front = []
    for kept in range(len(front), -1, -1):
        left = budget - sum(load.start + _READING for load in [*critical, *front[:kept]]) / window
        share = left * _FRONT_END_SHARE if kept else 0.0
        slow = _rate(front[:kept], share)
        quick = _rate(critical, left - sum(slow * load.tick for load in front[:kept]))
        if not kept or (slow >= SLOWEST and quick >= SLOWEST):
            break
    quick = max(quick, _LEAST if len(critical) <= 2 else SLOWEST)
    rates = {load.key: int(quick) for load in critical}
    rates.update({load.key: int(min(slow, quick)) for load in front[:kept]})
    return Plan(window, rates)


def _rate(loads: Sequence[Load[Key]], share: float) -> float:
    tick = sum(load.tick for load in loads)
    return min(float(FASTEST), share / tick) if tick > 0 else float(FASTEST)
