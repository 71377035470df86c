"""Runs inside vLLM, as a plug-in of it: notes its forward passes, so that they can stand for a device, and does harm.

vLLM on a CPU computes in the engine's own thread. Its forward pass is what a GPU would do; everything else there, a
compiler or a grammar included, is the host's.

``GAPTOP_FORWARD``: a file that gets CLOCK_MONOTONIC and the thread's CPU time (ns, two little-endian 64-bit numbers) at
the start of each forward pass and at its end. ``GAPTOP_GARBAGE``: while this file exists, the engine collects a large
heap's garbage in each of its steps, as a plug-in that calls gc.collect() does; with "debug" in it vLLM's own GC
debugger looks on, as VLLM_GC_DEBUG=1 makes it do.
"""

from __future__ import annotations

import gc
import os
import struct
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

HEAP: Final = 2_000_000
"""Objects that a collection has to walk: some 50 ms."""


def register() -> None:
    """Called by vLLM in each of its processes, before the model is made."""
    runner = import_module("vllm.v1.worker.gpu_model_runner").GPUModelRunner
    engine = import_module("vllm.v1.engine.core").EngineCoreProc
    if hasattr(runner, "gaptop_noted"):
        return
    note = os.open(os.environ["GAPTOP_FORWARD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    runner.gaptop_noted = True
    runner._model_forward = _noted(runner._model_forward, note)
    garbage = Garbage(Path(os.environ["GAPTOP_GARBAGE"]))
    engine._process_engine_step = _littered(engine._process_engine_step, garbage)


def _noted(forward: Callable[..., Any], note: int) -> Callable[..., Any]:
    def now() -> None:
        os.write(note, struct.pack("<qq", time.monotonic_ns(), time.thread_time_ns()))

    def _model_forward(*arguments: Any, **named: Any) -> Any:
        now()
        try:
            return forward(*arguments, **named)
        finally:
            now()

    return _model_forward


def _littered(step: Callable[..., Any], garbage: Garbage) -> Callable[..., Any]:
    def _process_engine_step(*arguments: Any) -> Any:
        garbage.collect()
        return step(*arguments)

    return _process_engine_step


class Garbage:
    """What makes an engine step collect garbage while a file exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._heap: list[list[object]] = []
        self._callback: Callable[..., None] | None = None

    def collect(self) -> None:
        if not self._path.exists():
            if self._heap:
                self._end()
            return
        if not self._heap:
            self._begin()
        gc.collect()

    def _begin(self) -> None:
        gc.disable()  # or the collector would walk the heap again and again while it grows
        self._heap = [[] for _ in range(HEAP)]
        gc.enable()
        if self._path.read_text() == "debug":
            debugging = import_module("vllm.utils.gc_utils")
            self._callback = debugging.GCDebugger(debugging.GCDebugConfig("1")).handle
            gc.callbacks.append(self._callback)

    def _end(self) -> None:
        self._heap = []
        if self._callback is not None:
            gc.callbacks.remove(self._callback)
            self._callback = None
