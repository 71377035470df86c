"""Named parameters: an 8B model on one of a few GPUs, what the host does around each step, and the server's settings.

Orders of magnitude, not a calibration. Sources: the public Llama 3.1 8B config (8.03 G parameters, 32 layers, hidden
4096, 8 KV heads of 128) and the makers' public data sheets, named at each preset; host costs after the shares that
py-spy sees in a real vLLM's engine thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Decode is bound by reading the weights and the KV cache, prefill by arithmetic.

    ``kv_blocks``: blocks of 16 tokens that fit beside the weights. ``host_bandwidth`` (bytes/s) is what a copy to and
    from pinned host memory reaches, ``all_reduce`` the seconds of one small reduction among tensor-parallel ranks.
    ``memory_knee``: down to this share of the highest SM clock, the memory's bandwidth does not fall.
    """

    parameters: float = 8.03e9
    weight_bytes: float = 2.0  # bf16
    layers: int = 32
    hidden: int = 4096
    kv_bytes_per_token: float = 2 * 32 * 8 * 128 * 2.0  # K and V, layers, KV heads, head size, bf16
    bandwidth: float = 1008e9 * 0.85  # bytes/s that a memory-bound kernel reaches
    flops: float = 165e12 * 0.6  # FLOP/s that a large matrix product reaches
    kv_blocks: int = 768
    host_bandwidth: float = 25e9  # PCIe 4.0 x16
    all_reduce: float = 30e-6  # over PCIe, some tens of KB
    memory_knee: float = 0.7

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

    def on_ranks(self, seconds: float, ranks: int) -> float:
        """A step of ``seconds`` split over tensor-parallel ranks: two reductions a layer are added."""
        return seconds if ranks == 1 else seconds / ranks + 2 * self.layers * self.all_reduce

    def slowed(self, seconds: float, compute: float, clock: float) -> float:
        """A step of ``seconds``, ``compute`` of it bound by arithmetic, at the share ``clock`` of the highest clock."""
        return seconds * (compute / clock + (1 - compute) / min(1.0, clock / self.memory_knee))

    def moving(self, tokens: int, bandwidth: float) -> float:
        """Seconds in which the KV cache of ``tokens`` crosses a link of ``bandwidth`` bytes/s."""
        return tokens * self.kv_bytes_per_token / bandwidth


RTX_4090: Final = DeviceModel()
"""NVIDIA's Ada architecture paper: 1008 GB/s, 165 TFLOPS dense FP16 with FP32 accumulation. 768 blocks are 1.5 GiB:
what is left of 24 GB beside bf16 weights, activations and a desktop."""

H100: Final = DeviceModel(
    bandwidth=3350e9 * 0.85,
    flops=989e12 * 0.6,
    kv_blocks=24_576,
    host_bandwidth=50e9,
    all_reduce=12e-6,
)
"""NVIDIA's H100 data sheet (SXM): 3.35 TB/s, 989 TFLOPS dense BF16, 80 GB, PCIe 5.0, NVLink. 48 GiB of KV cache."""

A10: Final = DeviceModel(bandwidth=600e9 * 0.9, flops=125e12 * 0.6)
"""NVIDIA's A10 data sheet: 600 GB/s, 125 TFLOPS dense FP16, 24 GB. A decode step takes 30 ms."""

HARDWARE: Final[dict[str, DeviceModel]] = {"4090": RTX_4090, "h100": H100, "a10": A10}
"""The presets by the name that the command line uses."""


@dataclass(frozen=True, slots=True)
class HostModel:
    """Seconds on a core: a fixed part and a part for each request, token (``tokenize``) or image of the work."""

    schedule: tuple[float, float] = (120e-6, 4e-6)
    prepare_batch: tuple[float, float] = (200e-6, 3e-6)
    launch: tuple[float, float] = (150e-6, 0.0)
    sample: tuple[float, float] = (100e-6, 4e-6)
    detokenize: tuple[float, float] = (60e-6, 8e-6)
    tokenize: tuple[float, float] = (300e-6, 3e-6)
    multimodal: tuple[float, float] = (2e-3, 80e-3)

    def cost(self, phase: str, count: int) -> float:
        """Seconds that ``phase`` takes for ``count`` requests or tokens."""
        fixed, each = getattr(self, phase)
        return float(fixed + each * count)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The server's settings, under the names of vLLM's flags where one exists.

    ``membership`` ``static`` admits only into an empty batch. ``chunked`` false gives prompts whole steps of their own.
    ``steps_in_flight`` 2 is asynchronous scheduling: the host prepares a step while the device runs the one before; 1
    is none of that overlap. ``preemption`` ``swap`` keeps a victim's KV cache in host memory. ``disaggregated`` gives
    prefill a device and an engine of its own; the KV cache then crosses a link of ``kv_transfer_bandwidth`` bytes/s
    (here a 200 Gb/s NIC). ``single_process``: the front end's threads share the engine's interpreter. ``busy_poll``:
    waiting threads keep their cores.
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
    preemption: Literal["recompute", "swap"] = "recompute"
    tensor_parallel_size: int = 1
    tokenizer_workers: int = 1
    disaggregated: bool = False
    kv_transfer_bandwidth: float = 25e9
    single_process: bool = False
    busy_poll: bool = False
