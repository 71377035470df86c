"""The way from the front end into an engine's queue."""

from __future__ import annotations

from collections.abc import Callable

from gaptop.lab.core.events import Event
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.requests import Request


class FrontInlet:
    """See ``engine.Inlet``."""

    def __init__(self, front: FrontEnd, add: Callable[[Event], None]) -> None:
        self.front = front
        self._add = add

    def take(self, now: float) -> list[Request]:
        """See ``engine.Inlet``."""
        arrived, spans = self.front.take(now)
        for span in spans:
            self._add(span)
        return arrived

    def next_event(self, now: float) -> float:
        """See ``engine.Inlet``."""
        return self.front.next_event()

    def held_by(self, now: float) -> tuple[str, float] | None:
        """See ``engine.Inlet``."""
        return self.front.held_by(now)

    def oldest(self) -> float:
        """See ``engine.Inlet``."""
        return self.front.oldest()
