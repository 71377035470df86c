"""What a scraping collector remembers between two scrapes: when it read, what failed, whether the server restarted."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message, Note
from gaptop_collectors.engines.http import Answer
from gaptop_collectors.target import ServerProcess

_WHY: Final = {"absent": "nothing there to answer", "refused": "no right to read it", "starting": "still starting"}
_ERRORS: Final = (0.005, 0.02, 0.1, 0.5, 2.5)


def read_at(answer: Answer) -> int:
    """When an exporter that has nothing else to do took its values: between our send and its first byte, so halfway."""
    return (answer.sent_ns + answer.first_ns) // 2


def pids_of(processes: Sequence[ServerProcess]) -> list[int]:
    """The pids that make up the server: helpers and compilers come and go without it being another server."""
    return [p.pid for index, p in enumerate(processes) if index == 0 or p.role != "other"]


class ScrapeLog:
    """The times of the readings of one source, and the holes between them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._last_ns: int | None = None
        self._failing = ""
        self._took: deque[int] = deque(maxlen=64)
        self._early: deque[float] = deque(maxlen=64)

    @property
    def error(self) -> float:
        """Bound in seconds of a reading's time over the last 64 scrapes, rounded up to a step so that it stays put."""
        worst = max(self._early, default=_ERRORS[0])
        return next((step for step in _ERRORS if step >= worst), _ERRORS[-1])

    def failed(self, error: CollectorError) -> None:
        """No readings came; the next success will say over what time."""
        self._failing = _WHY.get(error.state, "no usable answer")

    def taken(self, sent_ns: int, first_ns: int) -> int:
        """When the server took the values of an answer: a busy one lets the request lie and takes them when it gets to
        it, right before it answers. So half of the quickest recent answer before the first byte; an answer that was
        itself held up on its way may hold values as early as the request."""
        return first_ns - min((first_ns - sent_ns, *self._took)) // 2

    def taken_in(self, answer: Answer) -> int:
        """When the values in it were taken."""
        return self.taken(answer.sent_ns, answer.first_ns)

    def read(self, answer: Answer) -> Sequence[Message]:
        """Book a good scrape; the hole since the last good one, when something failed in between."""
        at = self.taken_in(answer)
        self._took.append(answer.first_ns - answer.sent_ns)
        self._early.append((at - answer.sent_ns) / 1e9)
        holes: list[Message] = []
        if self._failing and self._last_ns is not None:
            holes.append(Hole(self._source, self._last_ns, at, self._failing))
        self._failing = ""
        self._last_ns = at
        return holes


class RestartWatch:
    """Tells a restarted server by its start marker, or by a counter that fell."""

    def __init__(self, source: str, title: str) -> None:
        self._source = source
        self._title = title
        self._marker: float | None = None
        self._counters: dict[str, float] = {}
        self._last_ns = 0

    def look(self, at_ns: int, marker: float | None, counters: Mapping[str, float | None]) -> Sequence[Message]:
        """A note and the hole since the previous look when the server is another one than then, else nothing."""
        because = ""
        if marker is not None and self._marker is not None and abs(marker - self._marker) > 0.5:
            because = "its start time changed"
        for name, value in counters.items():
            before = self._counters.get(name)
            if value is not None and before is not None and value < before:
                because = because or f"its counter {name} fell from {before:g} to {value:g}"
        since, self._last_ns = self._last_ns, at_ns
        if because:
            self._counters.clear()
        self._marker = marker if marker is not None else self._marker
        self._counters.update({name: value for name, value in counters.items() if value is not None})
        if not because:
            return ()
        says = f"The {self._title} server restarted between two scrapes: {because}."
        return (
            Hole(self._source, since, at_ns, "server restarted"),
            Note(at_ns, "server_restarted", says, self._source),
        )
