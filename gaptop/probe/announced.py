"""The engine's collector of one of several servers: the server is told of before it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gaptop_collectors.collector import Collector, Message, SourceInfo
from gaptop_collectors.target import Server

_FIRST_PATIENCE: Final = 5.0
"""Seconds that the first look may take, as any opening: the collector's libraries are loaded for it."""


class Announced:
    """Opens at once, and says whose metrics are to come; the collector of its engine is made and opened for the first
    sample, and again for the next one where that failed.

    So every server is known from the start: the devices and threads of one that is still loading are nobody else's.
    """

    def __init__(self, server: Server, make: Callable[[], Collector]) -> None:
        self.name = f"engines.{server.engine}"
        self.period = 0.5
        self.deadline = _FIRST_PATIENCE
        self._server = server
        self._make = make
        self._collector: Collector | None = None

    def open(self) -> Sequence[Message]:
        """The server as it was found; it delivers nothing yet."""
        server = self._server
        pids = [process.pid for process in server.processes]
        entity = {"url": server.url, "engine": server.engine, "version": server.version, "model": server.model}
        return [SourceInfo(f"metrics/{server.url}", self.name, "server", {**entity, "pids": pids}, (), self.period)]

    def sample(self) -> Sequence[Message]:
        """A first, or a further, reading. Raises CollectorError, and ImportError where a dependency is missing."""
        if self._collector is not None:
            return self._after(self._collector, self._collector.sample())
        collector = self._make()
        try:
            messages = collector.open()
        except BaseException:
            collector.close()
            raise
        self._collector = collector
        return self._after(collector, messages)

    def boost(self, seconds: float) -> None:
        if self._collector is not None:
            self._collector.boost(seconds)
            self.period = self._collector.period

    def close(self) -> None:
        if self._collector is not None:
            self._collector.close()

    def _after(self, collector: Collector, messages: Sequence[Message]) -> Sequence[Message]:
        self.period, self.deadline = collector.period, collector.deadline
        return messages
