"""Named after vllm/distributed/parallel_state.py."""

from __future__ import annotations

from time import monotonic_ns, sleep


class GroupCoordinator:
    """The ranks of one tensor-parallel group."""

    def all_reduce(self, until_ns: int) -> None:
        """Sleep until ``until_ns``: another rank is not there yet."""
        sleep(max(until_ns - monotonic_ns(), 0) / 1e9)
