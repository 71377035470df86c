"""What a collector's sources have told so far, in seconds of the stream. Pure; not thread-safe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gaptop.recording.lines import Batch, Health, Hole, Line, Source, Spans, Watermark

SILENT: Final = 10.0
"""Seconds (or four periods) without a word after which a source counts as not delivering."""
_HOLE_EVERY: Final = 5.0
_GONE: Final = 20.0
_GOING: Final = ("ok", "late", "backoff")
_ENDED: Final = "nothing comes from it any more; the others of its kind go on."


@dataclass
class _Known:
    info: Source
    heard: float
    """When it last told anything."""
    told: float
    """Up to where it told: readings, a watermark or a hole."""
    read: float
    """When its newest reading came in."""
    newest: float | None = None
    declared: bool = False
    """Since it last told anything, a hole was declared."""


class SourceBook:
    """Follows the lines of one collector."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def note(self, lines: Iterable[Line], now: float) -> None:
        for line in lines:
            if isinstance(line, Source):
                before = self._known.get(line.id)
                if before is None:
                    self._known[line.id] = _Known(line, now, line.t, now)
                else:
                    before.info = line
                continue
            match line:
                case Batch(src=source, t=times):
                    until, reading = times[-1], True
                case Spans(src=source, covered=covered):
                    until, reading = covered[1], True
                case Hole(src=source, end=until) | Watermark(src=source, t=until):
                    reading = False
                case _:
                    continue
            known = self._known.get(source)
            if known is None:
                continue
            known.heard = now
            known.declared = False
            known.told = max(known.told, until)
            if reading:
                known.read = now
                known.newest = until if known.newest is None else max(known.newest, until)

    def health(
        self, now: float, collector: str, state: str, period: float | None, cost: float | None, says: str
    ) -> Iterator[Health]:
        """A line for every source, or one for the collector while it has none.

        A source that has no more readings while others of this collector go on (its process ended, its device was taken
        away) has ended, whatever the collector's own state; one that is paused is held back and says why.
        """
        if not self._known:
            yield Health(now, collector, collector, state, None, period, cost, says)
        freshest = max((known.read for known in self._known.values()), default=0.0)
        for source, known in self._known.items():
            if known.info.paused and state in _GOING:
                yield Health(now, source, collector, "backoff", known.newest, period, cost, known.info.says)
            elif now - known.read > _GONE + 4 * known.info.period and now - freshest < SILENT:
                yield Health(now, source, collector, "ended", known.newest, period, cost, _ENDED)
            else:
                yield Health(now, source, collector, state, known.newest, period, cost, says or known.info.says)

    def holes(self, now: float, failing: str) -> Iterator[Hole]:
        """Holes over what was not told, so that verdicts need not wait for it: at once when the collector fails (with
        its reason), else after :data:`SILENT` seconds; then every few seconds."""
        for source, known in self._known.items():
            if not failing and not self._silent(known, now):
                continue
            if now > known.told and (now - known.told >= _HOLE_EVERY or not known.declared):
                yield Hole(source, known.told, now, failing or "nothing came from it")
                known.told = now
                known.declared = True

    def _silent(self, known: _Known, now: float) -> bool:
        return now - known.heard > max(SILENT, 4 * known.info.period)
