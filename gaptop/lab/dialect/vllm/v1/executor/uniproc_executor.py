"""Named after vllm/v1/executor/uniproc_executor.py: the model lives in the engine process, as with one GPU."""

from __future__ import annotations

from gaptop.lab.dialect.vllm.v1.worker.gpu_model_runner import AsyncGPUModelRunnerOutput, GPUModelRunner


class AsyncOutputFuture:
    """Waits for a step's tokens."""

    def __init__(self) -> None:
        self._output = AsyncGPUModelRunnerOutput()

    def result(self, until_ns: int) -> None:
        """Sleep until ``until_ns``."""
        self._output.get_output(until_ns)


class UniProcExecutor:
    """Calls the runner in this thread."""

    def __init__(self) -> None:
        self._runner = GPUModelRunner()

    def execute_model(self, phase: str, until_ns: int) -> None:
        """Prepare or launch."""
        self._runner.execute_model(phase, until_ns)

    def sample_tokens(self, until_ns: int) -> None:
        """Handle sampled tokens."""
        self._runner.sample_tokens(until_ns)
