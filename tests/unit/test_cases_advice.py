"""Each engine's advice is in its own flag names: a flag that a server does not have helps nobody."""

from __future__ import annotations

import pytest

from gaptop.valleys.advice import advice
from gaptop.valleys.model import CAUSE_NAMES, Cause
from gaptop.valleys.remedy import Remedy

OWN = {
    "vllm": ("--max-num-seqs", "--max-num-batched-tokens", "--gpu-memory-utilization", "--api-server-count"),
    "sglang": ("--max-running-requests", "--chunked-prefill-size", "--mem-fraction-static", "--tokenizer-worker-num"),
    "tgi": ("--max-batch-total-tokens", "--max-batch-prefill-tokens", "--validation-workers"),
    "trtllm": ("--max_batch_size", "--kv_cache_free_gpu_memory_fraction", "num_postprocess_workers"),
    "lmdeploy": ("--cache-max-entry-count", "--max-prefill-token-num", "--quant-policy"),
    "llamacpp": ("--parallel", "--ctx-size", "--n-gpu-layers", "--ubatch-size"),
}


def texts(engine: str) -> str:
    causes: list[Cause] = list(CAUSE_NAMES)  # type: ignore[arg-type]
    return " ".join(advice(cause, remedy, engine) for cause in causes for remedy in Remedy)


@pytest.mark.parametrize("engine", list(OWN))
def test_an_engine_is_advised_in_its_own_flags(engine: str) -> None:
    assert all(flag in texts(engine) for flag in OWN[engine])


@pytest.mark.parametrize("engine", [*OWN, ""])
def test_no_engine_is_advised_in_anothers_flags(engine: str) -> None:
    foreign = [flag for other, flags in OWN.items() if other != engine for flag in flags]
    assert [flag for flag in foreign if flag in texts(engine)] == []


@pytest.mark.parametrize("engine", [*OWN, ""])
@pytest.mark.parametrize("cause", ["admission_stall", "prefill_interference", "cache_pressure", "host_starvation"])
def test_the_engines_causes_say_what_will_not_help(engine: str, cause: Cause) -> None:
    assert "will not help" in advice(cause, Remedy.USUAL, engine)
