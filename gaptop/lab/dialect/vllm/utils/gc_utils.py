"""Named after vllm/utils/gc_utils.py, as a vLLM shows it that was started with VLLM_GC_DEBUG.

Without it a collection has no frame of its own: py-spy then shows whatever happened to allocate.
"""

from __future__ import annotations

import gc
from collections import Counter
from time import monotonic_ns
from typing import Final

MOST: Final = 20_000
"""Objects counted at each collection: some milliseconds' work, so that nothing ends much too late."""


class GCDebugger:
    """Counts what a collection looks at, by type."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def handle(self, phase: str, info: dict[str, int]) -> None:
        """The interpreter calls it before and after each collection."""
        if phase == "start":
            self.found = Counter(type(each).__name__ for each in gc.get_objects(info["generation"])[:MOST])


def collect(until_ns: int) -> None:
    """Collect garbage, over and over, until ``until_ns``."""
    debugger = GCDebugger()
    gc.callbacks.append(debugger.handle)
    try:
        while monotonic_ns() < until_ns:
            gc.collect()
    finally:
        gc.callbacks.remove(debugger.handle)
