"""What to try, in the engine's own flag names, and what will not help. One sentence or two a cause and sub-cause."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.advice_engines import OTHERS_BY_CAUSE, OTHERS_BY_REMEDY
from gaptop.valleys.advice_remedies import BY_REMEDY
from gaptop.valleys.model import Cause
from gaptop.valleys.remedy import Remedy

_VLLM: Final = "vllm"
_LLAMA: Final = "llamacpp"

_BY_CAUSE: Final[dict[tuple[Cause, str], str]] = {
    ("admission_stall", ""): (
        "Raise the engine's cap on running requests (and on tokens a step) while KV memory is free. More KV memory will"
        " not help: it was not the limit."
    ),
    ("prefill_interference", ""): (
        "Cut prompts into smaller chunks, or let prefill share its steps with decode. More KV memory will not help."
    ),
    ("cache_pressure", ""): (
        "Give the KV cache more memory or a smaller data type, or admit fewer requests at a time. A larger batch will"
        " not help."
    ),
    ("host_starvation", ""): (
        "Give the engine a faster or less shared core (check the cgroup's CPU limit). A larger KV cache will not help."
    ),
    ("no_demand", ""): (
        "Nothing to fix in the server: send more requests, or share the device with other work."
        " A larger batch cannot fill an empty queue."
    ),
    ("admission_stall", _VLLM): (
        "Raise --max-num-seqs (and --max-num-batched-tokens) while KV memory is free."
        " More KV memory will not help: it was not the limit."
    ),
    ("admission_stall", _LLAMA): (
        "Raise --parallel (-np) and --ctx-size with it, as context is split between slots."
        " More threads will not help: requests wait for a slot."
    ),
    ("prefill_interference", _VLLM): (
        "Lower --max-num-batched-tokens so that a prefill chunk takes less of each step, keep --enable-chunked-prefill"
        " on, or cap long prompts' share with --long-prefill-token-threshold. More KV memory will not help."
    ),
    ("prefill_interference", _LLAMA): (
        "Lower --batch-size (-b) and --ubatch-size (-ub) so that a prompt batch ends sooner."
        " More slots will not help: they all wait for the same batch."
    ),
    ("cache_pressure", _VLLM): (
        "Raise --gpu-memory-utilization, use --kv-cache-dtype fp8, or lower --max-num-seqs so that fewer requests are"
        " thrown back. A larger batch will not help."
    ),
    ("cache_pressure", _LLAMA): (
        "Raise --ctx-size, quantise the cache (--cache-type-k q8_0 --cache-type-v q8_0), or lower --parallel."
        " More slots will not help."
    ),
    ("host_starvation", _VLLM): (
        "Give the engine a faster or less shared core (check the cgroup's CPU limit), and let asynchronous scheduling"
        " on. A larger KV cache will not help."
    ),
    ("host_starvation", _LLAMA): (
        "Give the server its cores (--threads no larger than what it really has). A larger context will not help."
    ),
    ("synchronisation", ""): (
        "Let the engine overlap (asynchronous scheduling in vLLM), and avoid per-step reads of device values"
        " (logprobs, penalties). A larger batch hides it at best."
    ),
    ("external_wait", ""): (
        "Look at the KV connector, the storage and the adapters: prefetch earlier or keep them local."
        " More GPU memory helps only if it makes the fetch unnecessary."
    ),
    ("compiling", ""): (
        "Warm up with the shapes and options that are served (logprobs, LoRA, schemas), and keep the compile cache on"
        " a persistent disk. More memory or cores will not prevent it."
    ),
    ("device_limit", ""): (
        "Look at power limit, cooling and clocks (nvidia-smi -q -d PERFORMANCE), and at foreign processes on it."
        " Server flags will not help."
    ),
    ("stalled_busy", ""): (
        "Dump the stacks now (py-spy dump --pid PID --native) and look for one rank that is missing; a restart may be"
        " the only way on. Lower load will not help."
    ),
    ("artefact", ""): "Nothing to fix: the reading is at fault. Compare with another source before acting on it.",
    ("unknown", ""): "Record with threads (sudo gaptop record -o FILE) over the next one; the exclusions above stand.",
}

_TEXTS: Final = BY_REMEDY | OTHERS_BY_REMEDY

_OF_ALL_RANKS: Final = frozenset({Remedy.USUAL, Remedy.COLLECTIVE, Remedy.SLOW_COLLECTIVE, Remedy.TRANSFER})
_LATE_RANK: Final = " Look at that rank, not at the network: its peers only wait for it."


def advice(cause: Cause, remedy: Remedy, engine: str) -> str:
    """The sub-cause's own advice, else the engine's, else the cause's; of a straggler, what makes it late."""
    said = _advice(cause, remedy, engine)
    return said + _LATE_RANK if cause == "synchronisation" and remedy not in _OF_ALL_RANKS else said


def _advice(cause: Cause, remedy: Remedy, engine: str) -> str:
    if remedy is Remedy.FRONT_STOPPED:
        remedy = Remedy.STOPPED
    for kind in ((remedy, engine), (remedy, "")):
        if kind in _TEXTS:
            return _TEXTS[kind]
    return _BY_CAUSE.get((cause, engine)) or OTHERS_BY_CAUSE.get((cause, engine)) or _BY_CAUSE[cause, ""]
