"""Named after vllm/v1/core/sched/scheduler.py."""

from __future__ import annotations

from time import monotonic_ns

from gaptop.lab.live.plan import Plan


class Scheduler:
    """The real work here is the simulation's own scheduling, read ahead of time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._queue = list(range(64))

    def schedule(self, until_ns: int) -> None:
        """Decide the next step; busy until ``until_ns`` (CLOCK_MONOTONIC)."""
        self._plan.read_ahead()
        while monotonic_ns() < until_ns:
            self._queue.sort(reverse=self._queue[0] == 0)
