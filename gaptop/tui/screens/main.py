"""The dashboard: puts a frame together from what is known and from where the user is."""

from __future__ import annotations

import time
from typing import Final

from textual.app import ComposeResult

from gaptop.tui import figures, layout, palette
from gaptop.tui.cells import Piece
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.focus import ALL, Focus, Part, focuses, healths_shown, marks, told_of
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.keymap import shown_all
from gaptop.tui.keys import NAMES
from gaptop.tui.lanes.choice import Choice
from gaptop.tui.lanes.devices import DIGIT
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.lanes.picture import picture_rows
from gaptop.tui.lanes.rack import Rack
from gaptop.tui.lower import Lower
from gaptop.tui.notice import Notice
from gaptop.tui.panels import footer, header, ledger, small
from gaptop.tui.panels.tabs import tabs
from gaptop.tui.position import Position
from gaptop.tui.ranged import RangeLedger
from gaptop.tui.scene import Scene, explained
from gaptop.tui.screens.steered import Steered
from gaptop.tui.session import Session
from gaptop.tui.sweep import SweepMode
from gaptop.tui.unhurried import Unhurried
from gaptop.tui.view import View, usual_view
from gaptop.tui.widgets.lines import Lines
from gaptop.tui.widgets.picture import Picture

_ENDS: Final = 4
"""Cells of the line at both ends of what stands in it."""
_Aside = tuple[list[Piece], list[list[Piece]], list[list[Piece]]]
"""Where the sources stand; the argument; the money."""


class Dashboard(Steered):
    """Header, picture, verdict, ledger, keys. It owns the view; the session owns what is known."""

    AUTO_FOCUS = ""

    def __init__(self, session: Session, options: ScreenOptions, glyphs: Glyphs) -> None:
        super().__init__()
        self._session = session
        self._options = options
        self._glyphs = glyphs
        self._focus: Focus | None = None
        self._racks: dict[str, Rack] = {}
        """Lanes keep what they have read of their part."""
        self._widths = layout.widths(80)
        self._split = layout.split(24)
        self._notes = 0
        """Lines under the ledger, where there is room for them."""
        self._wanted = 0
        """Rows that the part under the picture would fill, where that may be more than usual."""
        self._position: Position | None = None
        self._choice = Choice(options.folded, options.order)
        self._lower = Lower()
        self._ranged = RangeLedger()
        self._drawn_for: tuple[object, ...] = ()
        self._rested = False
        """The last frame was left out."""
        self._notice = Notice()
        self._ticked = time.monotonic()
        self._settled = session.feed.live
        """Whether the view of a recording has been fitted to it."""
        self.screen_share: float | None = None
        self.sweep = SweepMode(options.sweep)
        self._verdicts: tuple[object, ...] = ()
        self._aside: Unhurried[_Aside] = Unhurried()

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
            self._widths = layout.widths(width)
            self._share_rows(height)
            await self._cut()
            if self._position is None:
                self._position = Position(self._widths.cells, self._session.now)
            self._position.resize(self._widths.cells, self._session.now)
        self.call_after_refresh(self.draw)

    async def _cut(self) -> None:
        widths = self._widths
        await self.query_one(Picture).cut(widths.gutter, widths.cells, widths.value + 1, self._sweeps)

    @property
    def _sweeps(self) -> bool:
        """While it is live: a picture that does not move any more is told from left to right."""
        return self.sweep.on and self._session.feed.live and self._session.ended is None

    def _share_rows(self, height: int) -> None:
        self._split = layout.split(height, self._notes, self._wanted)
        self.query_one("#detail").styles.height = 1 + self._split.detail
        self.query_one("#ledger").styles.height = self._split.ledger
        self.query_one("#ledger").display = self._split.ledger > 0

    @property
    def view(self) -> View:
        return self._position.view if self._position else usual_view(self._widths.cells, self._session.now)

    @property
    def speed(self) -> float:
        """At which a recording plays."""
        return self._position.speed if self._position else 1.0

    def tick(self) -> None:
        """After new lines: a following view moves on; a recording is shown whole once it is read.

        While neither the columns nor the verdicts move, every second frame is enough for values and ages.
        """
        position, now = self._position, self._session.now
        if position is None:
            return
        position.sweep = self._sweeps
        position.advance(now)
        moment = time.monotonic()
        if position.playing:
            position.play(moment - self._ticked, now)
        self._ticked = moment
        if not self._settled and self._session.ended is not None:
            self._settled = True
            if position.view.following:
                position.show_whole(*self._session.reach)
        if self.sweep.turned_on(moment):
            self.call_later(self._show_sweep, f"This link is slow, so the picture is swept; {self._back_to_rolling()}")
        before, self._verdicts = self._verdicts, self._session.headline
        news = position.view, position.cursor, self._verdicts
        self._rested = news == self._drawn_for and not self._rested
        if not self._rested:
            self._drawn_for = news
            self.draw(hurry=before != self._verdicts)

    def draw(self, hurry: bool = True) -> None:
        """One frame. Widgets send only what differs from the frame before; without ``hurry`` most lines of text differ
        once a second at most: making them anew each time would cost a fifth of the screen's work."""
        if not self.is_mounted or self._position is None and not self.has_class("small"):
            return
        width, height = self.app.size
        scene = self.scene()
        top = self.query_one("#header", Lines)
        if self.has_class("small"):
            top.show(small.lines(scene, width, height))
            return
        session, notes = self._session, ledger.note_lines(scene)
        if (asked := (len(notes), self._lower.wanted(scene, width))) != (self._notes, self._wanted):
            self._notes, self._wanted = asked
            self._share_rows(height)
        lanes = self._lanes(scene)
        first = header.first_line(scene, width, live=session.feed.live, ended=session.ended, busy=session.ended is None)
        second, middle, below = self._aside.of(
            (width, self._split, len(notes), self._standing),
            lambda: (self._sources(scene, width), self._argument(scene, width), self._money(scene, width, notes)),
            hurry=hurry,
        )
        top.show([first, second, self._rule(width, f"{self._tabs(scene)}{self._folded_note()}")])
        self.query_one(Picture).show(picture_rows(scene, lanes, self._widths))
        self.query_one("#detail", Lines).show(middle)
        last = self._last_lines(scene, width)
        self.query_one("#ledger", Lines).show([*below[: self._split.ledger + 1 - len(last)], *last[:-1]])
        self.query_one("#keys", Lines).show(last[-1:])

    @property
    def _standing(self) -> tuple[object, ...]:
        """What must be told at once when it changes: how sources are, and whether the probe is heard."""
        session = self._session
        return session.silence > 0.0, *(health.state for health in session.healths.values())

    def scene(self) -> Scene:
        """What the frame is drawn from, now."""
        session = self._session
        start = figures.moment(session.timeline.header.start_utc) if session.timeline.header else None
        chosen = self._position.chosen if self._position else None
        timeline, assessment = session.timeline, session.assessment
        if self._focus is not None:
            timeline = part = Part(timeline, self._focus)
            assessment = told_of(assessment, self._focus, part)
        valley = explained(assessment, self.view, chosen, going=session.ended is None)
        return Scene(
            timeline=timeline,
            sources=timeline.sources,
            assessment=assessment,
            view=self.view,
            now=session.now,
            cursor=self._position.cursor if self._position else None,
            valley=valley,
            chosen=valley is not None and valley.id == chosen,
            glyphs=self._glyphs,
            start=start,
            zone=self._options.timezone,
            fact=self._lower.fact,
            selected=self._position.selected if self._position else None,
            speed=self._position.speed if self._position and self._position.playing else None,
            sweeping=self._position is not None and self._position.places.sweeping,
        )

    async def toggle_sweep(self) -> None:
        """Sweep, live, or roll again."""
        position = self._position
        if not self._session.feed.live or self._session.ended is not None:
            self.answer_line("Nothing comes in any more: only a live picture is swept.")
        elif position is not None:
            self.sweep.choose(not position.places.sweeping)
            if self.sweep.on and not position.view.following:
                position.live(self._session.now)
            rolls = "The picture rolls: the newest column is at the right edge."
            await self._show_sweep(f"Swept: {self._back_to_rolling()}" if self.sweep.on else rolls)

    async def _show_sweep(self, says: str) -> None:
        """The picture as it is drawn from now on."""
        if self._position is not None:
            self._position.sweep = self._sweeps
            await self._cut()
            self.answer_line(says)

    def _back_to_rolling(self) -> str:
        keys = shown_all(self._options.keys["sweep"], self._glyphs.ascii)
        return f"the newest column moves over the oldest. {keys} rolls it again."

    def _lanes(self, scene: Scene) -> tuple[tuple[Lane, int], ...]:
        rack = self._racks.setdefault(self._focus.label if self._focus else ALL, Rack())
        lanes = rack.lanes(scene.timeline, healths_shown(self._session.timeline, self._session.healths, self._focus))
        return self._choice.share(scene, lanes, self._split.lanes, self.app.size.height >= layout.TALL)

    def _tabs(self, scene: Scene) -> str:
        timeline, room = self._session.timeline, self.app.size.width - _ENDS
        found = focuses(timeline)
        marked = marks(timeline, found, self._session.healths)
        return tabs(scene, found, self._focus, marked, self._widths.cells, room)

    def _folded_note(self) -> str:
        shown = self._choice.shown
        notes = [f"{digit} {name}" for digit, name in NAMES if digit in shown.folded]
        if shown.left_out:
            notes.insert(0, f"{DIGIT} devices ({shown.left_out} of {shown.devices})")
        return f" folded: {', '.join(notes)} " if notes else ""

    def _sources(self, scene: Scene, width: int) -> list[Piece]:
        session = self._session
        return header.second_line(
            scene,
            width,
            healths_shown(session.timeline, session.states, self._focus),
            silence=session.silence,
            probe_share=session.probe_share,
            screen_share=self.screen_share if session.feed.live else None,
            live=session.feed.live and session.ended is None,
        )

    def _argument(self, scene: Scene, width: int) -> list[list[Piece]]:
        return [self._rule(width, self._lower.title(scene)), *self._lower.lines(scene, width, self._split.detail)]

    def _money(self, scene: Scene, width: int, notes: list[list[Piece]]) -> list[list[Piece]]:
        """Where the time went: in what is selected or on screen, and since the start; one line where room is scarce."""
        whole, roomy = ledger.ledger_pieces(scene, width), self._split.ledger > 1
        if not roomy and scene.selected is None:
            return [whole]
        part = ledger.range_pieces(scene, self._ranged.of(scene), width)
        return [self._rule(width, ""), part, whole, *notes] if roomy else [part]

    def _rule(self, width: int, note: str) -> list[Piece]:
        rule = self._glyphs.rule
        return [(rule * 2 + note + rule * (width - 2 - len(note)), palette.DIM)]

    def _last_lines(self, scene: Scene, width: int) -> list[list[Piece]]:
        """The keys, or a message in their place and, where it is long, in that of the ledger; while a range is being
        selected both, as far as there is room."""
        marking = self._position is not None and self._position.marking
        said = footer.said(scene, self._notice.text, width, self._split.ledger + (not marking))
        if said and not marking:
            return said
        if self._session.feed.live:
            pause = "pause" if self.view.following else "resume"
        else:
            pause = "play" if scene.speed is None else "hold"
        return [*said, footer.pieces(width, pause, self._options.keys, marking=marking)]
