"""A thread as a strip of letters: what it did for most of each column."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np

from gaptop.timeline.types import Cover, SeriesId, ThreadId
from gaptop.tui import palette
from gaptop.tui.cells import Cell, Piece
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.lane import BLANK, Drawn, absence, sentence_rows
from gaptop.tui.lanes.states import RunStates
from gaptop.tui.scene import Scene
from gaptop.tui.window import settled_until
from gaptop_collectors.signals import split_key

_SIGNALS: Final = ("host.thread_activity", "host.oncpu", "host.runqueue_wait", "host.blocked", "host.gil")
_LABEL: Final = 13
"""Characters that a label has beside no scale, also in a narrow terminal."""
_HOLE, _PENDING, _NOTHING = "(hole)", "(pending)", "(nothing)"
_ABSENT: Final = {_HOLE: "hole", _PENDING: "pending", _NOTHING: "not there"}
_COVER: Final = {_HOLE: Cover.HOLE, _PENDING: Cover.PENDING, _NOTHING: Cover.NOTHING}


class Shown(NamedTuple):
    """A thread that has a lane. ``booked`` is the source that tells its run states, "" where none does."""

    source: str
    tid: str
    role: str
    name: str
    booked: str
    digit: int

    @property
    def key(self) -> str:
        return f"{self.role} states" if self.booked else self.role


class StripLane:
    """The run states (where they are known) are drawn below a strip.

    A strip whose words (an activity, or why there is none) are kept once they are final."""

    def __init__(self, thread: Shown) -> None:
        self.key = thread.key
        self.digit = thread.digit
        self._thread = thread
        self._source = thread.source
        self._states = RunStates(thread.booked, thread.tid) if thread.booked else None
        self._read: tuple[object, list[str]] | None = None
        self._kept: dict[int, str] = {}
        self._seconds = 0.0

    def present(self, scene: Scene) -> bool:
        return True

    def draw(self, scene: Scene, height: int) -> Drawn:
        words = self._words(scene)
        cells: list[Cell] = [_cell(word, scene.glyphs) for word in words]
        shares, told = self._states.draw(scene, height - 1) if self._states and height > 1 else ([], ())
        rows = [cells, *shares, *([BLANK] * len(cells) for _ in range(height - 1 - len(shares)))]
        values = (self._value(scene, words), *told, *((),) * (height - 1 - len(told)))
        name, label = self._thread.name, self._thread.role
        both = f"{label} {name.removesuffix('Thread') or name}"
        if height == 1 and len(both) <= _LABEL:
            label = both
        return Drawn(label, rows, ("",) * height, values, scene.rests_on(_SIGNALS), under=name)

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

    def _find(self, scene: Scene, start: float, end: float, n: int) -> list[str]:
        shares = scene.timeline.share_columns(ThreadId(self._source, int(self._thread.tid)), start, end, n)
        best = np.argmax(shares.seconds, axis=1).tolist()
        known = (shares.seconds.max(axis=1) > 0).tolist()
        width = (end - start) / n
        return [
            shares.activities[best[i]] if known[i] else self._absent(scene, start + i * width, start + (i + 1) * width)
            for i in range(n)
        ]


class StateLane(StripLane):
    """A thread of which only /proc tells: on a core, wanting one, reading storage, or asleep."""

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
                if labels.get("tid") == self._thread.tid:
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
        value = ((" not seen", palette.DIM),)
        return Drawn("threads", rows, ("",) * height, (value, *(((),) * (height - 1))), told=True)


@cache
def _cell(word: str, glyphs: Glyphs) -> Cell:
    if word in _ABSENT:
        return absence(_COVER[word], glyphs)
    if word in palette.REST:
        return (glyphs.idle, palette.DIM)
    return (palette.LETTERS.get(word, "o"), palette.activity_style(word))
