"""Named after vllm/v1/engine/core.py: the engine process's busy loop."""

from __future__ import annotations

import logging
import os
import queue
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

from gaptop.lab.core.events import HostSpan
from gaptop.lab.dialect.vllm.v1.core.sched.scheduler import Scheduler
from gaptop.lab.dialect.vllm.v1.executor.multiproc_executor import MultiprocExecutor
from gaptop.lab.dialect.vllm.v1.executor.uniproc_executor import AsyncOutputFuture, UniProcExecutor
from gaptop.lab.live.plan import Plan


class EngineCore:
    """One engine: scheduler, executor, and the wait for the step in flight."""

    def __init__(self, plan: Plan) -> None:
        self.scheduler = Scheduler(plan)
        self.model_executor = UniProcExecutor()
        self._workers = MultiprocExecutor()
        self._future = AsyncOutputFuture()
        self._logger = logging.Logger("vllm.v1.engine.core")
        self._logger.addHandler(logging.StreamHandler(open(os.devnull, "w", encoding="utf-8")))  # noqa: SIM115

    def step_with_batch_queue(self, phase: str, until_ns: int) -> None:
        """Do one phase of a step until ``until_ns``."""
        if phase == "schedule":
            self.scheduler.schedule(until_ns)
        elif phase == "grammar":
            self.scheduler.get_grammar_bitmask(until_ns)
        elif phase == "gc":
            self.scheduler.update_from_output(until_ns)
        elif phase == "log":
            self.log_iteration_details(until_ns)
        elif phase == "device_sync":
            self._future.result(until_ns)
        elif phase == "worker_wait":
            self._workers.collective_rpc(until_ns)
        elif phase == "sample":
            self.model_executor.sample_tokens(until_ns)
        else:
            self.model_executor.execute_model(phase, until_ns)

    def log_iteration_details(self, until_ns: int) -> None:
        """Write lines to nowhere until ``until_ns``."""
        while monotonic_ns() < until_ns:
            self._logger.info("iteration %d: %s", until_ns, self.scheduler)


class EngineCoreProc(EngineCore):
    """Runs the simulation's plan in real time. ``send`` tells the front end that a message of the plan is due.

    ``captures``: what compiles is the capture of graphs.
    """

    def __init__(self, plan: Plan, send: Callable[[], None], *, captures: bool = False) -> None:
        super().__init__(plan)
        self._compile = "graph_capture" if captures else "compile"
        self._plan = plan
        self._send = send
        self._input_queue: queue.Queue[None] = queue.Queue()

    def run_busy_loop(self) -> None:
        """For ever."""
        while True:
            event = self._plan.next()
            if not isinstance(event, HostSpan):
                self._send()
            elif event.phase == "idle":
                self._process_input_queue(self._plan.clock.to_ns(event.end))
            else:
                self._process_engine_step(event.phase, self._plan.clock.to_ns(event.end))

    def _process_input_queue(self, until_ns: int) -> None:
        """Sleep until ``until_ns``: the simulation knows when something will come in."""
        left = until_ns - monotonic_ns()
        with suppress(queue.Empty):
            self._input_queue.get(timeout=max(left, 0) / 1e9)

    def _process_engine_step(self, phase: str, until_ns: int) -> None:
        self.step_with_batch_queue(self._compile if phase == "compile" else phase, until_ns)
