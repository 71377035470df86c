"""What a reader who starts in the middle must know: the header, the newest source lines, the stacks that spans name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from gaptop.recording.lines import BadLine, Frames, Header, Line, Source, Spans, decode, encode, kind_of

STACKS_KEPT: Final = 8192
"""Twice what the probe keeps: with the same order of use, every stack that the probe still names is still here."""
_TOLD: Final = frozenset(("header", "source", "frames", "spans"))


class Context:
    """Follows a stream and repeats its dictionaries. Bounded: the least recently used stacks are forgotten."""

    def __init__(self) -> None:
        self.header: bytes | None = None
        self._sources: dict[str, bytes] = {}
        self._stacks: OrderedDict[int, tuple[str, Sequence[Sequence[object]]]] = OrderedDict()
        self._given: set[int] = set()

    def note(self, raw: bytes) -> Line | None:
        """Learn from an encoded line; gives its message when it is of a kind that matters here."""
        if kind_of(raw) not in _TOLD:
            return None
        try:
            line = decode(raw)
        except BadLine:
            return None
        match line:
            case Header():
                self.header = raw
            case Source():
                self._sources[line.id] = raw
            case Frames():
                for key, frames in line.stacks.items():
                    self._stacks[int(key)] = (line.src, frames)
                    self._stacks.move_to_end(int(key))
                while len(self._stacks) > STACKS_KEPT:
                    self._given.discard(self._stacks.popitem(last=False)[0])
        return line

    def opening(self) -> Iterator[bytes]:
        """The lines that a new member starts with; from here on no stack counts as given."""
        self._given.clear()
        if self.header is not None:
            yield self.header
        yield from self._sources.values()

    def given(self, frames: Frames) -> None:
        """These stacks stand in the member now."""
        self._given.update(map(int, frames.stacks))

    def missing(self, spans: Spans) -> Iterator[bytes]:
        """The frames lines that must stand before these spans, and from here on count as given."""
        wanted: dict[str, dict[str, Sequence[Sequence[object]]]] = {}
        for stack in dict.fromkeys(spans.stack):
            known = self._stacks.get(stack)
            if known is None:
                continue
            self._stacks.move_to_end(stack)
            if stack not in self._given:
                self._given.add(stack)
                wanted.setdefault(known[0], {})[str(stack)] = known[1]
        for source, stacks in wanted.items():
            yield encode(Frames(source, stacks))


class Repeats:
    """Tells what a reader has been told already: headers, sources and stacks that a part repeats for its own sake."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._sources: dict[str, Source] = {}
        self._stacks: set[str] = set()

    def repeated(self, line: Line) -> bool:
        """Whether this line says nothing new; it counts as told from here on."""
        match line:
            case Header():
                before, self._header = self._header, line
                return before == line
            case Source():
                known = self._sources.get(line.id)
                self._sources[line.id] = line
                return known == line
            case Frames():
                if line.stacks.keys() <= self._stacks:
                    return True
                self._stacks.update(line.stacks)
        return False
