"""The dashboard: puts a frame together from what is known, and changes the view as keys and mouse say."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from textual.app import ComposeResult
from textual.screen import Screen

from gaptop.tui import figures, layout, palette
from gaptop.tui.cells import Piece
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.lanes.choice import Choice
from gaptop.tui.lanes.devices import DIGIT
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.lanes.picture import picture_rows
from gaptop.tui.lanes.rack import NAMES, Rack
from gaptop.tui.lanes.valleys import valley_at
from gaptop.tui.messages import PointedAt, WheelTurned
from gaptop.tui.panels import detail, footer, header, ledger, small
from gaptop.tui.panels.besides import besides
from gaptop.tui.position import Position
from gaptop.tui.scene import Scene, explained
from gaptop.tui.session import Session
from gaptop.tui.view import View, usual_view
from gaptop.tui.widgets.lines import Lines
from gaptop.tui.widgets.picture import Picture

_NOTICE_SECONDS: Final = 12.0


class Dashboard(Screen[None]):
    """Header, picture, verdict, ledger, keys. It owns the view; the session owns what is known."""

    AUTO_FOCUS = ""

    def __init__(self, session: Session, options: ScreenOptions, glyphs: Glyphs) -> None:
        super().__init__()
        self._session = session
        self._options = options
        self._glyphs = glyphs
        self._rack = Rack()
        self._widths = layout.widths(80)
        self._split = layout.split(24)
        self._notes = 0
        """Lines under the ledger, where there is room for them."""
        self._position: Position | None = None
        self._choice = Choice()
        self._argued: tuple[tuple[object, ...], list[list[Piece]]] = ((), [])
        self._drawn_for: tuple[object, ...] = ()
        self._rested = False
        """The last frame was left out."""
        self._notice: tuple[str, float] | None = None
        self._settled = session.feed.live
        """Whether the view of a recording has been fitted to it."""
        self.screen_share: float | None = None

    def compose(self) -> ComposeResult:
        end = self._glyphs.ellipsis
        yield Lines(id="header", ellipsis=end)
        yield Picture(id="picture")
        yield Lines(id="detail", ellipsis=end)
        yield Lines(id="ledger", ellipsis=end)
        yield Lines(id="keys", ellipsis=end)

    async def on_resize(self) -> None:
        """Share the rows out anew; too small a terminal gets a sentence instead."""
        width, height = self.app.size
        small_now = layout.too_small(width, height)
        self.set_class(small_now, "small")
        self.query_one("#header").styles.height = height if small_now else 3
        if not small_now:
            self._widths = widths = layout.widths(width)
            self._share_rows(height)
            await self.query_one(Picture).cut(widths.gutter, widths.cells, widths.value + 1)
            if self._position is None:
                self._position = Position(widths.cells, self._session.now)
            self._position.resize(widths.cells, self._session.now)
        self.call_after_refresh(self.draw)

    def _share_rows(self, height: int) -> None:
        self._split = layout.split(height, self._notes)
        self.query_one("#detail").styles.height = 1 + self._split.detail
        self.query_one("#ledger").styles.height = self._split.ledger
        self.query_one("#ledger").display = self._split.ledger > 0

    @property
    def view(self) -> View:
        return self._position.view if self._position else usual_view(self._widths.cells, self._session.now)

    def tick(self) -> None:
        """After new lines: a following view moves on; a recording is shown whole once it is read.

        While neither the columns nor the verdicts move, every second frame is enough for values and ages.
        """
        position, now = self._position, self._session.now
        if position is None:
            return
        position.advance(now)
        if not self._settled and self._session.ended is not None:
            self._settled = True
            shown = self._session.timeline.range
            if position.view.following:
                position.view = position.view.fit(*((shown.start, shown.end) if shown else (0.0, now)))
        news = position.view, self._session.headline
        self._rested = news == self._drawn_for and not self._rested
        if not self._rested:
            self._drawn_for = news
            self.draw()

    def draw(self) -> None:
        """One frame. Widgets send only what differs from the frame before."""
        if not self.is_mounted or self._position is None and not self.has_class("small"):
            return
        width, height = self.app.size
        scene = self.scene()
        top = self.query_one("#header", Lines)
        if self.has_class("small"):
            top.show(small.lines(scene, width, height))
            return
        session, notes = self._session, ledger.note_lines(scene)
        if len(notes) != self._notes:
            self._notes = len(notes)
            self._share_rows(height)
        lanes = self._lanes(scene)
        first = header.first_line(scene, width, live=session.feed.live, ended=session.ended, busy=session.ended is None)
        second = header.second_line(
            scene,
            width,
            session.states,
            silence=session.silence,
            probe_share=session.probe_share,
            screen_share=self.screen_share if session.feed.live else None,
        )
        top.show([first, second, self._rule(width, self._folded_note())])
        self.query_one(Picture).show(picture_rows(scene, lanes, self._widths))
        self.query_one("#detail", Lines).show([self._rule(width, self._about(scene)), *self._argument(scene, width)])
        money = ledger.ledger_pieces(scene, width)
        below = [self._rule(width, ""), money, *notes] if self._split.ledger > 1 else [money]
        self.query_one("#ledger", Lines).show(below)
        self.query_one("#keys", Lines).show([self._keys(scene, width)])

    def scene(self) -> Scene:
        """What the frame is drawn from, now."""
        session = self._session
        start = figures.moment(session.timeline.header.start_utc) if session.timeline.header else None
        chosen = self._position.chosen if self._position else None
        valley = explained(session.assessment, self.view, chosen)
        return Scene(
            timeline=session.timeline,
            sources=session.timeline.sources,
            assessment=session.assessment,
            view=self.view,
            now=session.now,
            cursor=self._position.cursor if self._position else None,
            valley=valley,
            chosen=valley is not None and valley.id == chosen,
            glyphs=self._glyphs,
            start=start,
            zone=self._options.timezone,
        )

    def notify_line(self, text: str) -> None:
        """Say something once in the last line."""
        self._notice = (text, time.monotonic() + _NOTICE_SECONDS)
        self.draw()

    def move(self, change: Callable[[Position, float], None]) -> None:
        """Change the position, given the newest moment, and show it."""
        if self._position is not None:
            change(self._position, self._session.now)
            self.draw()

    def back(self) -> None:
        """Cursor, selection and notice go."""
        self._notice = None
        self.move(lambda position, now: position.back())

    def toggle_lane(self, digit: int) -> None:
        """Fold or unfold the lanes of that digit."""
        self._choice.toggle(digit)
        self.draw()

    def step_valley(self, step: int) -> None:
        """Select the next or previous valley, or say why not."""
        if self._position is not None:
            valleys, now = self._session.assessment.valleys, self._session.now
            if says := self._position.step_valley(step, valleys, self.scene().valley, now):
                self.notify_line(says)
            self.draw()

    def zoom_to_valley(self) -> None:
        valley = self.scene().valley
        if valley is None:
            self.notify_line("No valley to zoom to.")
        else:
            self.move(lambda position, now: position.zoom_to(valley, now))

    def on_pointed_at(self, message: PointedAt) -> None:
        column = message.x - self._widths.gutter
        if 0 <= column < self._widths.cells:
            valley = valley_at(self.scene(), self.view.time_at(self.view.first + column))
            self.move(lambda position, now: position.point_at(column, valley))

    def on_wheel_turned(self, message: WheelTurned) -> None:
        column = min(max(message.x - self._widths.gutter, 0), self._widths.cells - 1)
        self.move(lambda position, now: position.zoom_at(message.steps, column, now))

    async def save(self) -> Path:
        """Write what is on screen to a file. Raises OSError."""
        import asyncio

        view, session = self.view, self._session
        start, end = max(0.0, view.start), min(view.end, session.now)
        return await asyncio.to_thread(session.feed.save, start, end, session.verdicts(start, end))

    def _lanes(self, scene: Scene) -> tuple[tuple[Lane, int], ...]:
        lanes = self._rack.lanes(scene.timeline, self._session.healths)
        return self._choice.share(scene, lanes, self._split.lanes, self.app.size.height >= layout.TALL)

    def _folded_note(self) -> str:
        shown = self._choice.shown
        notes = [f"{digit} {name}" for digit, name in NAMES if digit in shown.folded]
        if shown.left_out:
            notes.insert(0, f"{DIGIT} devices ({shown.left_out} of {shown.devices})")
        return f" folded: {', '.join(notes)} " if notes else ""

    def _argument(self, scene: Scene, width: int) -> list[list[Piece]]:
        """The sentence that is always there, and the explained valley; laid out again only when something changed."""
        valley, said = scene.valley, scene.assessment.sentence
        moving = scene.now if valley is None or valley.end_s is None else 0.0
        alert = detail.alert_lines(scene, width)
        key = (valley, said, scene.chosen, scene.start, width, self._split.detail, moving, besides(scene), str(alert))
        if key != self._argued[0]:
            lines = [*detail.sentence_lines(scene, width), *alert]
            lines += detail.detail_lines(scene, width, self._split.detail - len(lines))
            self._argued = (key, lines)
        return self._argued[1]

    def _about(self, scene: Scene) -> str:
        """Which valley the lines below explain."""
        valleys = scene.assessment.valleys
        if scene.valley is None:
            return ""
        if scene.chosen:
            place = [valley.id for valley in valleys].index(scene.valley.id) + 1
            return f" now, and the selected valley, {place} of {len(valleys)} "
        return " now, and the open valley " if scene.valley.end_s is None else " now, and the costliest valley in view "

    def _rule(self, width: int, note: str) -> list[Piece]:
        rule = self._glyphs.rule
        return [(rule * 2 + note + rule * (width - 2 - len(note)), palette.DIM)]

    def _keys(self, scene: Scene, width: int) -> list[Piece]:
        if self._notice is not None:
            text, until = self._notice
            if time.monotonic() < until:
                return [(f" {scene.clean(text)}", palette.BOLD)]
            self._notice = None
        return footer.pieces(width, self.view.following or not self._session.feed.live)
