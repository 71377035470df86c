"""Drives DcgmExporter through scripted scrapes in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, Note, SourceInfo
from gaptop_collectors.devices import dcgm
from gaptop_collectors.engines.http import Answer
from gaptop_collectors.target import HttpOptions

S = 1_000_000_000
EPOCH = 1_000 * S


class Scripted:
    """Stands in for Endpoint: answers with what ``says`` returns for the present second, or raises it."""

    made: Scripted

    def __init__(self, base: str, options: HttpOptions, **_: Any) -> None:
        self.base, self.options = base, options
        self.now = 0.0
        self.says: Callable[[float], str | int | CollectorError] = lambda now: ""
        Scripted.made = self

    def get(self, path: str) -> Answer:
        said = self.says(self.now)
        if isinstance(said, CollectorError):
            raise said
        at = EPOCH + round(self.now * S)
        status, text = (said, "") if isinstance(said, int) else (200, said)
        return Answer(status, {}, text.encode(), at, at, at, at, True)

    def close(self) -> None:
        pass


class Watched:
    """``run`` scrapes from second to second as the collector wants to; ``messages`` is all that it said."""

    def __init__(self, **options: Any) -> None:
        self.exporter = dcgm.DcgmExporter("http://gpu-host", HttpOptions(), **options)
        self.wire = Scripted.made
        self.messages: list[Message] = []
        self.errors: list[CollectorError] = []
        self.polls: list[float] = []

    def run(self, seconds: float, says: Callable[[float], str | int | CollectorError]) -> Watched:
        self.wire.says = says
        end = self.wire.now + seconds
        while self.wire.now < end:
            try:
                self.messages += self.exporter.sample()
                self.polls.append(self.exporter.period)
                self.wire.now += self.exporter.period + 0.002
            except CollectorError as error:
                self.errors.append(error)
                self.wire.now += 1.0
        return self

    def infos(self, source: str = "") -> list[SourceInfo]:
        return [one for one in self.messages if isinstance(one, SourceInfo) and one.source.endswith(source)]

    def notes(self, what: str) -> list[Note]:
        return [one for one in self.messages if isinstance(one, Note) and one.what == what]

    def holes(self) -> list[Hole]:
        return [one for one in self.messages if isinstance(one, Hole)]

    def delivered(self) -> list[Delivered]:
        return [one for one in self.messages if isinstance(one, Delivered)]

    def readings(self, key: str, source: str = "") -> list[tuple[float, float | None]]:
        """(second, value) of one series, in the order in which they were given out."""
        return [
            ((time_ns - EPOCH) / S, value)
            for one in self.messages
            if isinstance(one, Batch) and one.source.endswith(source)
            for time_ns, value in zip(one.times_ns, one.values.get(key, ()), strict=False)
        ]


@contextmanager
def scripted() -> Iterator[None]:
    """Every DcgmExporter made inside asks a :class:`Scripted`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dcgm, "Endpoint", Scripted)
        yield


def collected(period: float, body: Callable[[int], str]) -> Callable[[float], str]:
    """The text of collection number ``n``, served until the next one; collections come 0.3 of a period off."""
    return lambda now: body(int(now / period + 0.3))


def sources(messages: Sequence[Message]) -> set[str]:
    return {one.source for one in messages if isinstance(one, SourceInfo)}
