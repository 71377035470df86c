"""Which engine speaks: by the prefixes of its metric names. Pure, standard library only (discovery uses it)."""

from __future__ import annotations

import re
from typing import Final

SUPPORTED: Final = {"vllm": "vLLM", "llamacpp": "llama.cpp's llama-server"}
"""Engines with a collector, by the word used in ``Server.engine``."""

OTHERS: Final = {
    "sglang": "SGLang",
    "tgi": "Text Generation Inference",
    "trtllm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "aphrodite": "Aphrodite",
    "mistralrs": "mistral.rs",
    "dynamo": "NVIDIA Dynamo",
    "ollama": "Ollama",
    "koboldcpp": "KoboldCpp",
    "tabbyapi": "TabbyAPI",
    "llama_cpp_python": "llama-cpp-python's server",
}
"""Engines that gaptop knows by name only."""

_PREFIXES: Final = {
    "vllm:": "vllm",
    "llamacpp:": "llamacpp",
    "aphrodite:": "aphrodite",
    "sglang:": "sglang",
    "tgi_": "tgi",
    "lmdeploy:": "lmdeploy",
    "nv_trt_llm_": "trtllm",
    "trtllm_": "trtllm",
    "mistralrs_": "mistralrs",
    "dynamo_": "dynamo",
}
_FIRST: Final = re.compile("^(?:# (?:HELP|TYPE) )?(" + "|".join(map(re.escape, _PREFIXES)) + ")", re.MULTILINE)


def engine_of(metrics_text: str) -> str | None:
    """The engine whose metrics these are, or None. Gateways pass foreign families through: the first prefix decides."""
    match = _FIRST.search(metrics_text)
    return _PREFIXES[match.group(1)] if match else None


def title(engine: str) -> str:
    """The engine's name for people."""
    return SUPPORTED.get(engine) or OTHERS.get(engine) or engine


def not_supported(engine: str, url: str) -> str:
    """The sentence for a server that was recognised and cannot be read."""
    return (
        f"{title(engine)} found at {url}, whose metrics gaptop cannot read yet, so its queue, tokens and KV cache are "
        f"not visible; the engines it reads are {' and '.join(SUPPORTED.values())}."
    )
