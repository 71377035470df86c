"""Named after vllm/v1/core/sched/scheduler.py."""

from __future__ import annotations

import gc
from time import monotonic_ns

from gaptop.lab.dialect.vllm.utils.gc_utils import GCDebugger
from gaptop.lab.dialect.vllm.v1.structured_output.backend_xgrammar import XgrammarBackend
from gaptop.lab.live.plan import Plan


class Scheduler:
    """The real work here is the simulation's own scheduling, read ahead of time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._queue = list(range(64))
        self._debugger = GCDebugger()
        self._grammar = XgrammarBackend()

    def schedule(self, until_ns: int) -> None:
        """Decide the next step; busy until ``until_ns`` (CLOCK_MONOTONIC)."""
        self._plan.read_ahead()
        while monotonic_ns() < until_ns:
            self._queue.sort(reverse=self._queue[0] == 0)

    def get_grammar_bitmask(self, until_ns: int) -> None:
        """Compile a grammar until ``until_ns``: the step cannot go on without it."""
        self._grammar.compile_grammar(until_ns)

    def update_from_output(self, until_ns: int) -> None:
        """Collect garbage until ``until_ns``: it falls due wherever something is allocated."""
        gc.callbacks.append(self._debugger.handle)
        try:
            while monotonic_ns() < until_ns:
                gc.collect()
        finally:
            gc.callbacks.remove(self._debugger.handle)
