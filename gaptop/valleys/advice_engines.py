"""What to try in the flag names of engines other than vLLM and llama.cpp. One sentence or two a cause and sub-cause.

Flags: SGLang's server arguments, text-generation-launcher, trtllm-serve and its YAML of options, lmdeploy serve.
"""

from __future__ import annotations

from typing import Final

from gaptop.valleys.advice_remedies import GRAMMAR
from gaptop.valleys.model import Cause
from gaptop.valleys.remedy import Remedy

_SGLANG: Final = "sglang"
_TGI: Final = "tgi"
_TRTLLM: Final = "trtllm"
_LMDEPLOY: Final = "lmdeploy"

OTHERS_BY_REMEDY: Final[dict[tuple[Remedy, str], str]] = {
    (Remedy.FRONT_END, _SGLANG): (
        "Give the front end more processes (--tokenizer-worker-num), or move image and tokeniser work to the clients"
        " (--skip-tokenizer-init). The scheduler's flags will not help: the requests never reach it."
    ),
    (Remedy.FRONT_END, _TGI): (
        "Raise --validation-workers, or shorten prompts. Batch flags will not help: the requests never reach the batch."
    ),
    (Remedy.FRONT_END, _TRTLLM): (
        "Raise num_postprocess_workers (in the YAML of options), or shorten prompts. --max_batch_size will not help:"
        " the requests never reach the executor."
    ),
    (Remedy.MAYBE_GC, _SGLANG): (
        "Serve with --gc-warning-threshold-secs 0.1, which logs long garbage collections. If it is one, freeze the heap"
        " after warm-up (POST /freeze_gc); if none is logged, look at the frame that is named. A higher"
        " --mem-fraction-static will not help."
    ),
    (Remedy.GRAMMAR, _SGLANG): GRAMMAR.format(backend="--grammar-backend"),
    (Remedy.BATCH_BOUNDARY, _TRTLLM): (
        "Requests joined only when the batch before them had ended: choose another scheduler policy than STATIC_BATCH."
        " A higher --max_batch_size will not help: it was not reached."
    ),
    (Remedy.UNDER_LIMIT, _SGLANG): (
        "Lower --schedule-conservativeness: the scheduler reserves for tokens that requests may still ask for. A higher"
        " --max-running-requests will not help: it was not reached."
    ),
    (Remedy.UNDER_LIMIT, _TGI): (
        "Lower --waiting-served-ratio or --max-waiting-tokens so that waiting requests join sooner. A higher"
        " --max-concurrent-requests will not help: it was not reached."
    ),
    (Remedy.ADAPTER, _SGLANG): (
        "Raise --max-loras-per-batch, or pin the adapters that are asked for. More KV memory will not help."
    ),
}

OTHERS_BY_CAUSE: Final[dict[tuple[Cause, str], str]] = {
    ("admission_stall", _SGLANG): (
        "Raise --max-running-requests while KV memory is free. A higher --mem-fraction-static will not help: memory was"
        " not the limit."
    ),
    ("admission_stall", _TGI): (
        "Raise --max-batch-total-tokens (or --max-batch-size) while memory is free: TGI reserves what each request may"
        " ask for. A higher --max-concurrent-requests only lengthens the queue and will not help."
    ),
    ("admission_stall", _TRTLLM): (
        "Raise --max_batch_size (and --max_num_tokens) while blocks are free. A larger"
        " --kv_cache_free_gpu_memory_fraction will not help: memory was not the limit."
    ),
    ("admission_stall", _LMDEPLOY): (
        "Raise --max-batch-size while the cache has room. A larger --cache-max-entry-count will not help: memory was"
        " not the limit."
    ),
    ("prefill_interference", _SGLANG): (
        "Lower --chunked-prefill-size, and let prefill share its steps with decode (--enable-mixed-chunk): without it"
        " prefill goes first. A higher --mem-fraction-static will not help."
    ),
    ("prefill_interference", _TGI): (
        "Lower --max-batch-prefill-tokens, and raise --max-waiting-tokens so that prefills interrupt decode less often."
        " A larger --max-batch-total-tokens will not help."
    ),
    ("prefill_interference", _TRTLLM): (
        "Set enable_chunked_prefill in the YAML of options and lower --max_num_tokens. More KV memory will not help."
    ),
    ("prefill_interference", _LMDEPLOY): (
        "Lower --max-prefill-token-num so that long prompts are cut smaller. More cache will not help."
    ),
    ("cache_pressure", _SGLANG): (
        "Raise --mem-fraction-static, use --kv-cache-dtype fp8_e5m2, or raise --schedule-conservativeness so that fewer"
        " requests are retracted. A larger batch will not help."
    ),
    ("cache_pressure", _TGI): (
        "Lower --max-batch-total-tokens to what really fits, or use --kv-cache-dtype. A longer queue will not help."
    ),
    ("cache_pressure", _TRTLLM): (
        "Raise --kv_cache_free_gpu_memory_fraction, or let the scheduler's policy be GUARANTEED_NO_EVICT so that"
        " started requests are not paused. A larger --max_batch_size will not help."
    ),
    ("cache_pressure", _LMDEPLOY): (
        "Raise --cache-max-entry-count, or quantise the cache (--quant-policy 8). A larger --max-batch-size will not"
        " help."
    ),
    ("host_starvation", _SGLANG): (
        "Give the scheduler's process a faster or less shared core (check the cgroup's CPU limit), and do not start it"
        " with --disable-overlap-schedule. A higher --mem-fraction-static will not help."
    ),
    ("synchronisation", _SGLANG): (
        "Do not start it with --disable-overlap-schedule, and avoid per-step reads of device values (logprobs,"
        " penalties). A larger batch hides it at best."
    ),
}
