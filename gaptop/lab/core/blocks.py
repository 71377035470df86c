"""The paged KV cache: a count of equal blocks, handed out and given back."""

from __future__ import annotations

from gaptop.lab.core.requests import Request


class BlockPool:
    """``capacity`` blocks of ``block_size`` tokens. A request holds just the blocks that its tokens need."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self.used = 0

    def grow(self, request: Request, tokens: int) -> bool:
        """Give ``request`` room for ``tokens`` in all; False, and nothing changes, where too few blocks are free."""
        wanted = -(-tokens // self.block_size) - request.blocks
        if wanted > self.capacity - self.used:
            return False
        if wanted > 0:
            self.used += wanted
            request.blocks += wanted
        return True

    def free(self, request: Request) -> None:
        """Take back every block of ``request``."""
        self.used -= request.blocks
        request.blocks = 0
