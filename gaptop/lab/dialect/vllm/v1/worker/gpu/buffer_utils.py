"""Named after vllm/v1/worker/gpu/buffer_utils.py."""

from __future__ import annotations

from time import monotonic_ns, sleep


class UvaBufferPool:
    """Buffers that the device reads from host memory."""

    def copy_to_gpu(self, until_ns: int) -> None:
        """Sleep until ``until_ns``: the copy waits for the device, and the host for the copy."""
        sleep(max(until_ns - monotonic_ns(), 0) / 1e9)
