"""The paged KV cache: equal blocks, handed out and given back, with shared prefixes that outlive their requests.

A block with no request on it may still hold a cached prefix; it counts as free and is taken back, the prefix that was
unused for longest first. A prefix is named by its group and cached once some request has computed all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gaptop.lab.core.requests import Request


@dataclass(slots=True)
class _Prefix:
    """``blocks`` hold the prefix's beginning; ``users`` live requests share them."""

    blocks: int
    users: int = 0


class BlockPool:
    """``capacity`` blocks of ``block_size`` tokens. A request holds just the blocks that its tokens need.

    ``used`` counts blocks of live requests, shared ones once; ``cached`` those that hold a prefix and could be evicted.
    """

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self.used = 0
        self.cached = 0
        self._prefixes: dict[int, _Prefix] = {}  # the first one was unused for longest

    def found(self, request: Request) -> int:
        """Tokens of the request's prefix that are cached: at least one token of a prompt is always computed."""
        known = self._prefixes.get(request.wish.group)
        if known is None:
            return 0
        return min(known.blocks, (request.wish.prompt - 1) // self.block_size) * self.block_size

    def share(self, request: Request) -> None:
        """Let ``request`` use the cached prefix that found() told of."""
        known = self._prefixes.get(request.wish.group)
        if known is None or request.shares:
            return
        if not known.users:
            self.cached -= known.blocks
            self.used += known.blocks
        known.users += 1
        request.shares = True
        request.shared = self.found(request) // self.block_size

    def grow(self, request: Request, tokens: int) -> bool:
        """Give ``request`` room for ``tokens`` in all; False, and nothing changes, where too few blocks are free."""
        wanted = -(-tokens // self.block_size) - request.blocks - request.shared
        if wanted > self.capacity - self.used:
            return False
        if wanted > 0:
            self.used += wanted
            request.blocks += wanted
            if self.used + self.cached > self.capacity:
                self._evict(self.used + self.cached - self.capacity)
        return True

    def keep(self, request: Request) -> None:
        """``request`` has computed all of its prefix: others may share it from now on."""
        request.keeps = inf
        whole = request.wish.prefix // self.block_size
        known = self._prefixes.get(request.wish.group)
        if known is None:
            if not whole:
                return
            known = self._prefixes[request.wish.group] = _Prefix(0)
        elif known.blocks >= whole or request.shared != (known.blocks if request.shares else 0):
            return
        elif not request.shares and not known.users:  # what is left of it after an eviction
            self.cached -= known.blocks
            known.blocks = 0
        elif not request.shares:
            return
        more = whole - known.blocks
        known.blocks += more
        known.users += not request.shares
        request.shares = True
        request.blocks -= more
        request.shared += more

    def free(self, request: Request) -> None:
        """Take back every block of ``request``; a prefix that nobody uses any more stays cached."""
        self.used -= request.blocks
        request.blocks = request.shared = 0
        if request.shares:
            request.shares = False
            known = self._prefixes.pop(request.wish.group)
            self._prefixes[request.wish.group] = known
            known.users -= 1
            if not known.users:
                self.used -= known.blocks
                self.cached += known.blocks

    def _evict(self, blocks: int) -> None:
        for group in [group for group, known in self._prefixes.items() if not known.users]:
            known = self._prefixes[group]
            taken = min(blocks, known.blocks)
            known.blocks -= taken  # its end first, as vLLM frees a request's blocks
            self.cached -= taken
            blocks -= taken
            if not known.blocks:
                del self._prefixes[group]
            if not blocks:
                return
