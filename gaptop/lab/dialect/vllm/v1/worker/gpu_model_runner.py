"""Named after vllm/v1/worker/gpu_model_runner.py."""

from __future__ import annotations

from time import monotonic_ns

from gaptop.lab.dialect.torch._dynamo.convert_frame import _compile
from gaptop.lab.dialect.torch.cuda.streams import Event
from gaptop.lab.dialect.vllm.distributed.kv_transfer.kv_connector.v1.nixl_connector import NixlConnector
from gaptop.lab.dialect.vllm.distributed.parallel_state import GroupCoordinator
from gaptop.lab.dialect.vllm.lora.worker_manager import LRUCacheWorkerLoRAManager
from gaptop.lab.dialect.vllm.v1.worker.gpu.buffer_utils import UvaBufferPool


class AsyncGPUModelRunnerOutput:
    """The tokens of a step that may still be running on the device."""

    def __init__(self) -> None:
        self._event = Event()

    def get_output(self, until_ns: int) -> None:
        """Sleep until the device has finished."""
        self._event.synchronize(until_ns)


class GPUModelRunner:
    """Prepares a batch, launches it, and handles the sampled tokens."""

    def __init__(self) -> None:
        self._tokens = bytearray(4096)
        self._positions = list(range(256))
        self._others = {
            "graph_capture": self.capture_model,
            "collective": GroupCoordinator().all_reduce,
            "copy": UvaBufferPool().copy_to_gpu,
            "load": LRUCacheWorkerLoRAManager()._load_adapter,
            "kv_transfer": NixlConnector().start_load_kv,
        }

    def execute_model(self, phase: str, until_ns: int) -> None:
        """``prepare_batch``, ``launch``, ``compile`` or something rarer, until ``until_ns``."""
        if phase == "prepare_batch":
            self._prepare_inputs(until_ns)
        elif phase in self._others:
            self._others[phase](until_ns)
        else:
            self._model_forward(phase, until_ns)

    def _prepare_inputs(self, until_ns: int) -> None:
        while monotonic_ns() < until_ns:
            self._tokens[:256] = bytes(self._positions)

    def _model_forward(self, phase: str, until_ns: int) -> None:
        if phase == "compile":
            _compile(until_ns)
        while monotonic_ns() < until_ns:
            hash(bytes(self._tokens))

    def capture_model(self, until_ns: int) -> None:
        """Run the model once for each size of batch, until ``until_ns``."""
        while monotonic_ns() < until_ns:
            hash(bytes(self._tokens))

    def sample_tokens(self, until_ns: int) -> None:
        """Busy with the sampled tokens until ``until_ns``."""
        while monotonic_ns() < until_ns:
            max(self._positions)
