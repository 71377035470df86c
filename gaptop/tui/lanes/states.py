"""What the kernel books of a thread, as shares of each column: on a core, wanting one, asleep."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from gaptop.timeline.types import Columns, Cover, SeriesId
from gaptop.tui import palette
from gaptop.tui.cells import Piece, Row
from gaptop.tui.lanes.series import SeriesLane, Spec
from gaptop.tui.lanes.stack_bars import Look, stack_rows
from gaptop.tui.lanes.torn import tear, torn_columns
from gaptop.tui.scene import Scene
from gaptop_collectors.signals import series_key

ON_CORE: Final = "host.oncpu"
_WANTS: Final = "host.runqueue_wait"
_LOOK: Final = Look(palette.SKY, palette.VERMILLION, any_above=False)


class RunStates:
    """The shares of one thread of a process source. ``rows`` is empty as long as nothing was told of it."""

    def __init__(self, source: str, tid: str) -> None:
        self._source = source
        self._ran, self._waited = (
            SeriesLane(_share(signal), partial(_told, SeriesId(source, series_key(signal, tid=tid))))
            for signal in (ON_CORE, _WANTS)
        )
        self._rows: tuple[Columns, Columns | None, int, list[Row]] | None = None

    def draw(self, scene: Scene, height: int) -> tuple[list[Row], tuple[tuple[Piece, ...], ...]]:
        """Rows of cells and the values beside them; none where nothing is told."""
        ran, waited = self._ran.read(scene), self._waited.read(scene)
        if ran is None:
            return [], ()
        kept = self._rows
        if kept is None or kept[0] is not ran or kept[1] is not waited or kept[2] != height:
            above = waited or _nothing_like(ran)
            # A thread that neither runs nor wants a core sleeps, whatever on.
            asleep = np.clip(1.0 - np.nan_to_num(ran.mean, nan=1.0) - np.nan_to_num(above.mean), 0.0, 1.0)
            rows = stack_rows(ran, above, 1.0, height, _LOOK, scene.glyphs, asleep)
            torn = torn_columns(scene, (self._source,))
            self._rows = kept = ran, waited, height, tear(rows, torn, scene.glyphs, line=False)
        return kept[3], self._values(scene, ran, waited, height)

    def _values(self, scene: Scene, ran: Columns, waited: Columns | None, height: int) -> tuple[tuple[Piece, ...], ...]:
        """The shares under the cursor, else the newest."""
        on_core = self._ran.value(scene, ran)
        wants = () if waited is None else self._waited.value(scene, waited)
        if height > 1:
            return (_named(on_core, "cpu"), _named(wants, "wait"), *((),) * (height - 2))
        if len(on_core) < 2 or len(wants) < 2:
            return (_named(on_core, "cpu"),)
        shares = [(text.strip(), style) for text, style in (on_core[0], wants[0])]
        return (((" ", palette.PLAIN), shares[0], ("%cpu ", palette.DIM), shares[1], ("%wait", palette.DIM)),)


def _share(signal: str) -> Spec:
    return Spec(signal, 0, "", (signal,), "%", palette.SKY, full=1.0)


def _told(one: SeriesId, scene: Scene) -> tuple[SeriesId, ...]:
    return (one,) if one in scene.timeline.ids(one.key.partition("{")[0], one.source) else ()


def _named(value: tuple[Piece, ...], what: str) -> tuple[Piece, ...]:
    return (*value, (f" {what}", palette.DIM)) if len(value) > 1 else value


def _nothing_like(columns: Columns) -> Columns:
    """Columns of the same range in which nothing could be there."""
    missing = np.full(len(columns.mean), np.nan)
    cover = np.full(len(columns.mean), Cover.NOTHING, dtype=np.uint8)
    return Columns(columns.start, columns.end, missing, missing, missing, cover)
