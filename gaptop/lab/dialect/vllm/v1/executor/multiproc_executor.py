"""Named after vllm/v1/executor/multiproc_executor.py: each rank of a tensor-parallel model in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptop.lab.dialect.vllm.distributed.device_communicators.shm_broadcast import MessageQueue
from gaptop.lab.dialect.vllm.v1.worker.gpu_model_runner import AsyncGPUModelRunnerOutput, GPUModelRunner

if TYPE_CHECKING:
    from gaptop.lab.live.plan import Plan


class MultiprocExecutor:
    """The engine's side."""

    def __init__(self) -> None:
        self._response_mq = MessageQueue()

    def collective_rpc(self, until_ns: int) -> None:
        """Wait for the workers' answer until ``until_ns``."""

        def get_response() -> None:
            self._response_mq.dequeue(until_ns)

        get_response()


class WorkerProc:
    """A rank's own process: it plays its part of the simulation's plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rpc_broadcast_mq = MessageQueue()
        self._runner = GPUModelRunner()
        self._output = AsyncGPUModelRunnerOutput()

    def worker_busy_loop(self) -> None:
        """For ever."""
        while True:
            event = self._plan.next()
            self._rpc_broadcast_mq.dequeue(self._plan.clock.to_ns(event.start))
            until_ns = self._plan.clock.to_ns(event.end)
            phase = getattr(event, "phase", "")
            if phase == "idle":
                self._rpc_broadcast_mq.dequeue(until_ns)
            elif phase == "device_sync":
                self._output.get_output(until_ns)
            elif phase == "sample":
                self._runner.sample_tokens(until_ns)
            else:
                self._runner.execute_model(phase, until_ns)
