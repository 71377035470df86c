"""All series of a stream by source and by signal, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gaptop.timeline.series import Series, make_series
from gaptop.timeline.source import SourceState
from gaptop.timeline.types import SeriesId

_SERIES: Final = 10_000


class Store:
    """Sources by id, series by source and key, and an index from signal names to series."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceState] = {}
        self._by_signal: dict[str, dict[SeriesId, None]] = {}
        self._count = 0

    def get(self, id: SeriesId) -> Series | None:
        """The series, if there is one."""
        source = self.sources.get(id.source)
        return None if source is None else source.series.get(id.key)

    def add(self, source: SourceState, key: str) -> Series | None:
        """A new series; None where there are too many already."""
        if self._count >= _SERIES:
            return None
        self._count += 1
        series = source.series[key] = make_series(key, source)
        self._by_signal.setdefault(key.partition("{")[0], {})[SeriesId(source.info.id, key)] = None
        return series

    def ids(self, signal: str, source: str | None) -> tuple[SeriesId, ...]:
        """Every series of a signal, in the order in which they appeared."""
        return tuple(id for id in self._by_signal.get(signal, ()) if source is None or id.source == source)

    def all(self) -> Iterator[Series]:
        """Every series."""
        for source in self.sources.values():
            yield from source.series.values()

    def drop_before(self, moment: int) -> None:
        """Forget what ended before a moment, and labelled series (threads, processes) that ended altogether."""
        for id, source in self.sources.items():
            source.drop_before(moment)
            for key, series in list(source.series.items()):
                if series.stale(moment):
                    del source.series[key]
                    del self._by_signal[key.partition("{")[0]][SeriesId(id, key)]
                    self._count -= 1
                else:
                    series.drop_before(moment)


def trim(histories: list[tuple[int, Callable[[], None]]], most: int) -> None:
    """Given the size of each history and how it sheds its older half: shed the largest until all fit."""
    total = sum(size for size, _ in histories)
    for size, shed in sorted(histories, key=lambda item: -item[0]):
        if total <= most:
            return
        shed()
        total -= size // 2
