"""Named after vllm/lora/worker_manager.py."""

from __future__ import annotations

from time import monotonic_ns, sleep


class LRUCacheWorkerLoRAManager:
    """Loads adapters when a request asks for one."""

    def _load_adapter(self, until_ns: int) -> None:
        """Sleep until ``until_ns``, as a read from slow storage does; nothing is read."""
        sleep(max(until_ns - monotonic_ns(), 0) / 1e9)
