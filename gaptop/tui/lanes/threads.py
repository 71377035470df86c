"""A thread as a strip of letters: what it did for most of each column."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from gaptop.timeline.types import Cover, SeriesId, ThreadId
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.lane import BLANK, Drawn, absence, sentence_rows
from gaptop.tui.scene import Scene
from gaptop.tui.window import settled_until
from gaptop_collectors.signals import split_key

_SIGNALS: Final = ("host.thread_activity", "host.oncpu", "host.runqueue_wait", "host.blocked", "host.gil")
_HOLE, _PENDING, _NOTHING = "(hole)", "(pending)", "(nothing)"
_ABSENT: Final = {_HOLE: "hole", _PENDING: "pending", _NOTHING: "not there"}
_COVER: Final = {_HOLE: Cover.HOLE, _PENDING: Cover.PENDING, _NOTHING: Cover.NOTHING}


class StripLane:
    """A strip whose words (an activity, or why there is none) are kept once they are final."""

    def __init__(self, key: str, digit: int, label: str, source: str) -> None:
        self.key = key
        self.digit = digit
        self._label = label
        self._source = source
        self._read: tuple[object, list[str]] | None = None
        self._kept: dict[int, str] = {}
        self._seconds = 0.0

    def present(self, scene: Scene) -> bool:
        return True

    def draw(self, scene: Scene, height: int) -> Drawn:
        words = self._words(scene)
        cells: list[Cell] = [_cell(word, scene.glyphs) for word in words]
        rows = [cells, *([BLANK] * len(cells) for _ in range(height - 1))]
        supports = scene.rests_on(_SIGNALS)
        return Drawn(self._label, rows, ("",) * height, (self._value(scene, words), *(((),) * (height - 1))), supports)

    def _words(self, scene: Scene) -> list[str]:
        """Read again only when the view moved or the source said something new."""
        source, view = scene.sources.get(self._source), scene.view
        holes = scene.timeline.holes(self._source, view.start, view.end)
        said = (source.newest, source.watermark, len(holes)) if source else None
        state = (view, min(view.column_at(scene.now), view.right), said)
        if self._read is None or self._read[0] != state:
            self._read = (state, self._fetch(scene))
        return self._read[1]

    def _fetch(self, scene: Scene) -> list[str]:
        view = scene.view
        if view.seconds != self._seconds or len(self._kept) > 8 * view.columns:
            self._kept, self._seconds = {}, view.seconds
        shown = range(view.first, view.right + 1)
        missing = [column for column in shown if column not in self._kept]
        fresh: dict[int, str] = {}
        if missing:
            first, last = missing[0], missing[-1]
            found = self._find(scene, first * view.seconds, (last + 1) * view.seconds, last - first + 1)
            settled = settled_until(scene.sources.get(self._source))
            for column, word in enumerate(found, first):
                fresh[column] = word
                if (column + 1) * view.seconds <= settled:
                    self._kept[column] = word
        return [fresh[column] if column in fresh else self._kept[column] for column in shown]

    def _find(self, scene: Scene, start: float, end: float, n: int) -> list[str]:
        """A word for each of n equal columns."""
        raise NotImplementedError

    def _absent(self, scene: Scene, start: float, end: float) -> str:
        source = scene.sources.get(self._source)
        if source is None or end <= 0 or start > scene.now:
            return _NOTHING
        if scene.timeline.holes(self._source, start, end):
            return _HOLE
        return _PENDING if end > source.watermark else _NOTHING

    def _value(self, scene: Scene, words: list[str]) -> tuple[Piece, ...]:
        """The activity under the cursor, else the newest that was delivered."""
        if scene.cursor is not None and scene.view.shows(scene.cursor):
            word = words[scene.view.column_at(scene.cursor) - scene.view.first]
        else:
            word = next((word for word in reversed(words) if word not in _ABSENT), words[-1])
        if word in _ABSENT:
            return ((f" {_ABSENT[word]}", palette.DIM),)
        return ((f" {word.replace('_', ' ')}", palette.activity_style(word)),)


class StackLane(StripLane):
    """A thread that py-spy sees: the activity of its stacks."""

    def __init__(self, key: str, digit: int, label: str, thread: ThreadId) -> None:
        super().__init__(key, digit, label, thread.source)
        self._thread = thread

    def _find(self, scene: Scene, start: float, end: float, n: int) -> list[str]:
        shares = scene.timeline.share_columns(self._thread, start, end, n)
        best = np.argmax(shares.seconds, axis=1).tolist()
        known = (shares.seconds.max(axis=1) > 0).tolist()
        width = (end - start) / n
        return [
            shares.activities[best[i]] if known[i] else self._absent(scene, start + i * width, start + (i + 1) * width)
            for i in range(n)
        ]


class StateLane(StripLane):
    """A thread of which only /proc tells: on a core, wanting one, reading storage, or asleep."""

    def __init__(self, key: str, digit: int, label: str, source: str, tid: str) -> None:
        super().__init__(key, digit, label, source)
        self._tid = tid

    def _find(self, scene: Scene, start: float, end: float, n: int) -> list[str]:
        shares: dict[str, np.ndarray] = {}
        for name, one in self._series(scene):
            mean = np.nan_to_num(scene.timeline.columns(one, start, end, n).mean, nan=0.0)
            shares[name] = shares.get(name, np.zeros(n)) + mean
        width = (end - start) / n
        names = list(shares)
        stacked = np.stack([shares[name] for name in names]) if names else np.zeros((1, n))
        best, known = stacked.argmax(axis=0).tolist(), (stacked.max(axis=0) > 0).tolist()
        return [
            names[best[i]] if known[i] else self._absent(scene, start + i * width, start + (i + 1) * width)
            for i in range(n)
        ]

    def _series(self, scene: Scene) -> list[tuple[str, SeriesId]]:
        found: list[tuple[str, SeriesId]] = []
        for name, signal in (("run", "host.oncpu"), ("queue", "host.runqueue_wait"), ("idle", "host.blocked")):
            for one in scene.timeline.ids(signal, self._source):
                labels = split_key(one.key)[1]
                if labels.get("tid") == self._tid:
                    found.append(("disk" if labels.get("on") == "disk" else name, one))
        return found


class NoThreads:
    """The host lane where nothing of the host is seen: a sentence instead of a strip."""

    key = "threads"
    digit = 7

    def __init__(self, says: str) -> None:
        self._says = says

    def present(self, scene: Scene) -> bool:
        return True

    def draw(self, scene: Scene, height: int) -> Drawn:
        rows = sentence_rows(scene.clean(self._says), scene.view.columns, height, scene)
        return Drawn("threads", rows, ("",) * height, (((" not seen", palette.DIM),), *(((),) * (height - 1))))


@cache
def _cell(word: str, glyphs: Glyphs) -> Cell:
    if word in _ABSENT:
        return absence(_COVER[word], glyphs)
    if word in palette.REST:
        return (glyphs.idle, palette.DIM)
    return (palette.LETTERS.get(word, "o"), palette.activity_style(word))
