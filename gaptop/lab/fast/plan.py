"""How the real budget would let py-spy look at the simulated server: rates, windows, and when its recorders rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.lab.fast.machine import ProcessOf
from gaptop.lab.fast.view import View
from gaptop_collectors.host.pyspy_budget import BUDGET, RESERVE, WINDOWS, Load, Plan, Purse, make_plan

CRITICAL: Final = ("engine", "worker", "server")
FRONT_SHARE: Final = 1 / 3
"""Of the engine's rate, for the front end: what the budget gives it at its defaults."""
SLOWEST: Final = 5.0
_SETTLE: Final = 0.25
"""Between two looks at what the recorders have used."""


def plan_of(processes: Sequence[ProcessOf], view: View) -> Plan[int]:
    """By pid. Without costs the view's own rate, in the shortest windows."""
    python = [process for process in processes if process.python]
    costs = view.pyspy
    if costs is None:
        asked = view.stacks_hz or 0.0
        slow = min(asked, max(SLOWEST, asked * FRONT_SHARE))
        rates = {process.pid: max(1, round(asked if process.role in CRITICAL else slow)) for process in python}
        return Plan(WINDOWS[0], rates)
    loads = [
        Load(
            process.pid,
            process.role in CRITICAL,
            costs.thread * (len(process.threads) + len(process.idle)),
            costs.start,
            costs.reading,
        )
        for process in python
    ]
    return make_plan(loads, budget=BUDGET - RESERVE)


def rests_of(plan: Plan[int], seconds: float) -> tuple[tuple[float, float], ...]:
    """From when to when all recorders rest, in seconds after the first one began: where even the slowest rate is too
    dear they run until the debt is deep, and then not until it is paid back."""
    if not plan.over:
        return ()
    purse, found = Purse(), []
    began, rested = 0.0, 0.0
    for step in range(1, int(seconds / _SETTLE) + 1):
        now = step * _SETTLE
        before = purse.empty
        purse.settle(_SETTLE, 0.0 if before else plan.share * _SETTLE, 0.0)
        purse.judge(slow_enough=plan.fits, seen_enough=now - began >= WINDOWS[0])
        if purse.empty and not before:
            rested = now
        elif before and not purse.empty:
            began = now
            found.append((rested, now))
    if purse.empty:
        found.append((rested, seconds))
    return tuple(found)
