"""Stacks of the front end's threads: its event loop, its tokenisers, and those of the engine that only pass on."""

from __future__ import annotations

from typing import Final

from gaptop.lab.fast.frames_common import LOGGED, QUEUE, THREAD, Tails, Written, below
from gaptop.lab.fast.machine import Kind
from gaptop.lab.fast.waits import WAIT

API: Final = (
    "<module> /opt/venv/bin/vllm",
    "main vllm/entrypoints/cli/main.py",
    "ServeSubcommand.cmd vllm/entrypoints/cli/serve.py",
    "run uvloop/__init__.py",
    "Runner.run asyncio/runners.py",
)
_HANDLER: Final = "AsyncLLM._run_output_handler.<locals>.output_handler vllm/v1/engine/async_llm.py"
_OUTPUTS: Final = "OutputProcessor.process_outputs vllm/v1/engine/output_processor.py"
_STREAM: Final = (
    "StreamingResponse.stream_response starlette/responses.py",
    "OpenAIServingCompletion.completion_stream_generator vllm/entrypoints/openai/completion/serving.py",
)
_FRONT: Final[Tails] = {
    WAIT: ((),),
    "idle": ((),),
    "detokenize": (
        (_HANDLER, _OUTPUTS),
        (_HANDLER, _OUTPUTS, "IncrementalDetokenizer.update vllm/v1/engine/detokenizer.py"),
    ),
    "serialize": ((*_STREAM, "BaseModel.model_dump_json pydantic/main.py"),),
    "http": (("RequestResponseCycle.send uvicorn/protocols/http/httptools_impl.py",),),
    "log": ((_HANDLER, "StatLoggerManager.log vllm/v1/metrics/loggers.py", *LOGGED),),
    "gc": ((_HANDLER, _OUTPUTS, "OutputProcessor._update_stats_from_output vllm/v1/engine/output_processor.py"),),
    "tokenize": (("BaseRenderer.render_prompts vllm/renderers/base.py",),),
    "multimodal": (("MultiModalProcessor.apply vllm/multimodal/processing.py",),),
}
_POOL: Final[Tails] = {
    WAIT: (("_worker concurrent/futures/thread.py",),),
    "idle": (("_worker concurrent/futures/thread.py",),),
    "tokenize": (
        (
            "_worker concurrent/futures/thread.py",
            "_WorkItem.run concurrent/futures/thread.py",
            "BaseRenderer._tokenize_prompt vllm/renderers/base.py",
        ),
        (
            "_worker concurrent/futures/thread.py",
            "_WorkItem.run concurrent/futures/thread.py",
            "BaseRenderer._tokenize_prompt vllm/renderers/base.py",
            "TokenizersBackend._encode_plus transformers/tokenization_utils_tokenizers.py",
        ),
    ),
    "multimodal": (
        (
            "_worker concurrent/futures/thread.py",
            "_WorkItem.run concurrent/futures/thread.py",
            "BaseMultiModalProcessor.apply vllm/multimodal/processing.py",
            "Image.resize PIL/Image.py",
        ),
    ),
    "gc": (
        (
            "_worker concurrent/futures/thread.py",
            "_WorkItem.run concurrent/futures/thread.py",
            "BaseRenderer._tokenize_prompt vllm/renderers/base.py",
        ),
    ),
}

_PASSING: Final[dict[Kind, Written]] = {
    "input": ("EngineCoreProc.process_input_sockets vllm/v1/engine/core.py", "Poller.poll zmq/sugar/poll.py"),
    "output": ("EngineCoreProc.process_output_sockets vllm/v1/engine/core.py", *QUEUE),
    "monitor": (
        "MPClient.start_engine_core_monitor.<locals>.monitor_engine_cores vllm/v1/engine/core_client.py",
        "wait multiprocessing/connection.py",
    ),
}


def of_front(kind: Kind, phase: str) -> list[Written] | None:
    """Of any thread that is no engine's and no worker's."""
    if kind == "front":
        return below(API, _FRONT, phase)
    if kind == "pool":
        return below(THREAD, _POOL, phase)
    return [(*THREAD, *_PASSING[kind])] if kind in _PASSING and phase == WAIT else None
