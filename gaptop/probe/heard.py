"""What a probe has told so far, so that its death can be marked: which sources it knew, and up to where. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gaptop.recording.lines import BadLine, Batch, Header, Hole, Line, Source, Spans, Watermark, decode, kind_of

_LOOKED_AT: Final = frozenset(("batch", "spans", "hole", "watermark"))
_SOURCE: Final = len('{"k":"hole","src":"')
"""The shortest beginning of a line before its source's id."""


class Heard:
    """Follows encoded lines. Of each source and kind only the newest is kept, and read when it is needed: a probe tells
    some fifty lines a second and hardly ever dies."""

    def __init__(self) -> None:
        self.header = False
        self._newest: dict[bytes, bytes] = {}
        self._told: dict[str, float] = {}

    def note(self, raw: bytes) -> None:
        """Look at one line of the probe."""
        kind = kind_of(raw)
        if kind == "source":
            # When it appeared counts, not when it was described anew.
            self._read(raw)
        elif kind in _LOOKED_AT:
            self._newest[raw[: raw.find(b'",', _SOURCE)]] = raw
        elif kind == "header":
            self.header = self.header or isinstance(self._decoded(raw), Header)

    def holes(self, now: float, reason: str) -> Iterator[Hole]:
        """A hole for every source, from where it had got to until ``now`` (seconds of the stream)."""
        for raw in self._newest.values():
            self._read(raw)
        self._newest.clear()
        for source, told in self._told.items():
            if told < now:
                self._told[source] = now
                yield Hole(source, told, now, reason)

    def _read(self, raw: bytes) -> None:
        match self._decoded(raw):
            case Source() as line:
                self._told.setdefault(line.id, line.t)
            case Batch(src=source, t=times) if times:
                self._until(source, times[-1])
            case Spans(src=source, covered=covered):
                self._until(source, covered[1])
            case Hole(src=source, end=end):
                self._until(source, end)
            case Watermark(src=source, t=t):
                self._until(source, t)

    def _decoded(self, raw: bytes) -> Line | None:
        try:
            return decode(raw)
        except BadLine:
            return None

    def _until(self, source: str, t: float) -> None:
        known = self._told.get(source)
        if known is not None and t > known:
            self._told[source] = t
