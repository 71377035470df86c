"""One request, from the client's wish to its last token."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple


class Wish(NamedTuple):
    """What a client sends, and when. ``cached`` prompt tokens are found in the prefix cache at its first admission.

    A lower ``priority`` value is more urgent (vLLM's convention). The prompt's first ``prefix`` tokens are those of
    ``group`` (-1: of nobody else). ``images`` must be resized before the prompt is tokenised.
    """

    time: float
    prompt: int
    output: int
    cached: int = 0
    priority: int = 0
    prefix: int = 0
    group: int = -1
    images: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """State of one request. Tokens ``scheduled`` are under way or done, ``delivered`` ones have left the engine.

    ``hit`` prompt tokens were cached at its first admission. ``blocks`` are its own, ``shared`` those of a prefix that
    it uses together with others. ``swapped``: its computed tokens lie in host memory; ``carried``: they come from
    another device. ``limit``: tokens to be sampled where it is now. Its first ``lost`` tokens were in the KV cache
    before a preemption took them away.
    """

    id: int
    wish: Wish
    source: int
    arrived: float
    queued: float = 0.0
    limit: int = -1
    first_scheduled: float | None = None
    computed: int = 0
    blocks: int = 0
    scheduled: int = 0
    delivered: int = 0
    first_token: float | None = None
    last_token: float | None = None
    preemptions: int = 0
    told_preemptions: int = 0
    preemptions_to_tell: int = 0
    lost: int = 0
    hit: int = 0
    shared: int = 0
    shares: bool = False
    swapped: bool = False
    carried: bool = False
    aborted: bool = False
    keeps: float = inf
    """So many computed tokens are a prefix that others may share."""

    def __post_init__(self) -> None:
        if self.limit < 0:
            self.limit = self.wish.output
        if self.wish.group >= 0:
            self.keeps = self.wish.prefix

    @property
    def length(self) -> int:
        """Tokens that must be in the KV cache before the next one can be sampled."""
        return self.wish.prompt + self.scheduled

    @property
    def needs(self) -> int:
        """Tokens still to compute before the next one; 0 when the last is under way."""
        scheduled = self.scheduled
        return 0 if scheduled >= self.limit else self.wish.prompt + scheduled - self.computed

    @property
    def order(self) -> tuple[int, float, int]:
        """Place in a priority queue: most urgent, then oldest, first."""
        return (self.wish.priority, self.arrived, self.id)
