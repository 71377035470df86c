"""What the frames of a stack tell beyond its activity: a graph captured, a warm-up, an adapter loaded, a wake-up.

Names: vLLM (``capture_model``, ``wake_up``), SGLang (``init_device_graphs``, ``resume_memory_occupation``), TGI
(``cuda_graph_warmup``), LMDeploy and TensorRT-LLM (``capture``, ``_capture_*``, ``warmup``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import ThreadId

GRAPH_CAPTURE: Final = "graph capture"
WARM_UP: Final = "warm-up"
ADAPTER: Final = "adapter load"
WAKE_UP: Final = "wake-up"

RARE: Final = frozenset({"compile", "load", "other"})
"""Activities whose frames are looked at: ordinary steps show next to none of them."""

_WAKE: Final = re.compile(r"(^|\.)(wake_up|resume_memory_occupation)$")
_CAPTURE: Final = re.compile(r"(^|\.)(_?capture\w*|_warmup_and_capture|init_(device|cuda)_graphs|cuda_graph_warmup)$")
_WARM: Final = re.compile(r"warm_?up|(^|\.)profile_run$")
_ADAPTER: Final = re.compile(r"lora|adapter", re.IGNORECASE)


def frames_tell(timeline: Timeline, thread: ThreadId, start: float, end: float, total: float) -> dict[str, float]:
    """Shares of the seen time (``total`` seconds of it) by what the frames tell; only what they tell of."""
    kinds: dict[tuple[int, str], str] = {}
    took: dict[str, float] = {}
    for span in timeline.spans(thread, start, end):
        key = span.stack, span.activity
        if key not in kinds:
            kinds[key] = _kind(timeline.frames(span.stack), span.activity)
        if kinds[key]:
            took[kinds[key]] = took.get(kinds[key], 0.0) + min(span.end, end) - max(span.start, start)
    return {kind: seconds / total for kind, seconds in sorted(took.items())}


def _kind(frames: Sequence[tuple[str, str, int]], activity: str) -> str:
    names = [function for function, _, _ in frames]
    if any(_WAKE.search(name) for name in names):
        return WAKE_UP
    if activity == "compile":
        if any(_CAPTURE.search(name) for name in names):
            return GRAPH_CAPTURE
        return WARM_UP if any(_WARM.search(name) for name in names) else ""
    if activity == "load" and any(_ADAPTER.search(f"{file} {function}") for function, file, _ in frames):
        return ADAPTER
    return ""
