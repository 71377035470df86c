"""Named parameters: an 8B model on a 24 GB consumer GPU, and what the host does around each step.

Orders of magnitude, not a calibration. Sources: NVIDIA's Ada architecture paper (RTX 4090: 1008 GB/s, 165 TFLOPS dense
FP16 with FP32 accumulation); the public Llama 3.1 8B config (8.03 G parameters, 32 layers, hidden 4096, 8 KV heads of
128); host costs after the shares that py-spy sees in a real vLLM's engine thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Decode is bound by reading the weights and the KV cache, prefill by arithmetic."""

    parameters: float = 8.03e9
    weight_bytes: float = 2.0  # bf16
    layers: int = 32
    hidden: int = 4096
    kv_bytes_per_token: float = 2 * 32 * 8 * 128 * 2.0  # K and V, layers, KV heads, head size, bf16
    bandwidth: float = 1008e9 * 0.85  # bytes/s that a memory-bound kernel reaches
    flops: float = 165e12 * 0.6  # FLOP/s that a large matrix product reaches

    def step(self, new_tokens: int, attended: float, read_tokens: int) -> tuple[float, float]:
        """Seconds of one step, and the share of it bound by arithmetic.

        ``new_tokens`` are computed (prefill and decode), ``attended`` is the sum over prefill tokens of the context
        that each looks at, ``read_tokens`` are KV tokens read for decoding.
        """
        reading = self.parameters * self.weight_bytes / self.bandwidth
        arithmetic = 2 * self.parameters * new_tokens / self.flops
        attention = 4 * self.layers * self.hidden * attended / self.flops
        kv = read_tokens * self.kv_bytes_per_token / self.bandwidth
        total = max(reading, arithmetic) + attention + kv
        bound = attention + (arithmetic if arithmetic > reading else 0.0)
        return total, bound / total


@dataclass(frozen=True, slots=True)
class HostModel:
    """Seconds on a core: a fixed part and a part for each request (or token) of the step."""

    schedule: tuple[float, float] = (120e-6, 4e-6)
    prepare_batch: tuple[float, float] = (200e-6, 3e-6)
    launch: tuple[float, float] = (150e-6, 0.0)
    sample: tuple[float, float] = (100e-6, 4e-6)
    detokenize: tuple[float, float] = (60e-6, 8e-6)
    tokenize: tuple[float, float] = (300e-6, 3e-6)

    def cost(self, phase: str, count: int) -> float:
        """Seconds that ``phase`` takes for ``count`` requests or tokens."""
        fixed, each = getattr(self, phase)
        return float(fixed + each * count)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The server's settings, under the names of vLLM's flags where one exists.

    ``membership`` ``static`` admits only into an empty batch. ``chunked`` false gives prompts whole steps of their own.
    ``steps_in_flight`` 2 is asynchronous scheduling: the host prepares a step while the device runs the one before.
    768 blocks of 16 tokens are 1.5 GiB: what is left of 24 GB beside bf16 weights, activations and a desktop.
    """

    max_num_seqs: int = 32
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    chunked: bool = True
    block_size: int = 16
    num_blocks: int = 768
    policy: Literal["fcfs", "priority"] = "fcfs"
    membership: Literal["continuous", "static"] = "continuous"
    steps_in_flight: int = 2
