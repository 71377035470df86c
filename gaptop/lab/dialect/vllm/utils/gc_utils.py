"""Named after vllm/utils/gc_utils.py, as a vLLM shows it that was started with VLLM_GC_DEBUG.

Without it a collection has no frame of its own: py-spy then shows whatever happened to allocate.
"""

from __future__ import annotations

import gc
from collections import Counter


class GCDebugger:
    """Counts what a collection looks at, by type, which takes longer than the collection."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def handle(self, phase: str, info: dict[str, int]) -> None:
        """The interpreter calls it before and after each collection."""
        if phase == "start":
            self.found = Counter(type(each).__name__ for each in gc.get_objects())
