"""One request, from the client's wish to its last token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Wish(NamedTuple):
    """What a client sends, and when. ``cached`` prompt tokens are found in the prefix cache at its first admission.

    A lower ``priority`` value is more urgent (vLLM's convention). ``load`` and ``cycle`` say which client asked.
    """

    time: float
    prompt: int
    output: int
    cached: int = 0
    priority: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """State of one request. Tokens ``scheduled`` are under way or done, ``delivered`` ones have left the engine."""

    id: int
    wish: Wish
    source: int
    arrived: float
    queued: float = 0.0
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

    @property
    def length(self) -> int:
        """Tokens that must be in the KV cache before the next one can be sampled."""
        return self.wish.prompt + self.scheduled

    @property
    def needs(self) -> int:
        """Tokens still to compute before the next one; 0 when the last is under way."""
        return 0 if self.scheduled >= self.wish.output else self.length - self.computed

    @property
    def order(self) -> tuple[int, float, int]:
        """Place in a priority queue: most urgent, then oldest, first."""
        return (self.wish.priority, self.arrived, self.id)
