"""How keys and mouse change what the dashboard shows: position, selection, lanes, and what stands under the picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual.screen import Screen

from gaptop.tui import times
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.focus import Focus, focuses, next_focus
from gaptop.tui.keymap import shown_all
from gaptop.tui.lanes.choice import Choice
from gaptop.tui.lanes.valleys import valley_at
from gaptop.tui.layout import Widths
from gaptop.tui.listing import Listing
from gaptop.tui.lower import Lower, Mode
from gaptop.tui.messages import DrawnOver, PointedAt, WheelTurned
from gaptop.tui.notice import Notice
from gaptop.tui.position import Position
from gaptop.tui.scene import Scene
from gaptop.tui.session import Session


class Steered(Screen[None], inherit_bindings=False):
    """Whoever draws sets these, and draws after each change.

    Nothing here takes the focus, so that Textual's own keys that move it are free.
    """

    _session: Session
    _position: Position | None
    _choice: Choice
    _lower: Lower
    _focus: Focus | None
    _notice: Notice
    _widths: Widths
    _options: ScreenOptions

    def scene(self) -> Scene:
        """What the frame is drawn from, now."""
        raise NotImplementedError

    def draw(self, hurry: bool = True) -> None:
        """One frame."""
        raise NotImplementedError

    def notify_line(self, text: str) -> None:
        """Tell in the last line what happened."""
        self._notice.tell(text)
        self.draw()

    def answer_line(self, text: str) -> None:
        """Say in the last line what a key did, or why it does nothing: until the next one."""
        self._notice.answer(text)
        self.draw()

    def on_key(self) -> None:
        """Before what the key does."""
        if self._notice.end_answer():
            self.draw()

    def move(self, change: Callable[[Position, float], None]) -> None:
        """Change the position, given the newest moment, and show it."""
        if self._position is not None:
            change(self._position, self._session.now)
            self.draw()

    def back(self) -> None:
        """A range goes first, then closes what was opened last; where nothing is open, cursor and notice go."""
        position = self._position
        ranged = position is not None and (position.marking or position.selected is not None)
        if not self._notice.text and not ranged and (self._lower.back() or self._choice.usual()):
            self.draw()
            return
        self._notice.end()
        self.move(lambda position, now: position.back())

    def show_below(self, mode: Mode) -> None:
        """The list, or the whole argument, or what is usual there where that is shown already."""
        self._lower.show(mode)
        self.draw()

    @property
    def listing(self) -> Listing:
        """Order and filters of the list of valleys."""
        return self._lower.listing

    @listing.setter
    def listing(self, listing: Listing) -> None:
        self._lower.listing = listing
        if self._lower.mode != "list":
            self.show_below("list")
        self.draw()

    def up_or_down(self, step: int) -> None:
        """Among the rows of the list, or the numbers that speak for the cause."""
        position, scene = self._position, self.scene()
        if self._lower.mode != "list":
            self._lower.step_fact(scene, step)
        elif position is not None:
            chosen = scene.valley.id if scene.valley else None
            valley = self._lower.listing.beside(scene.assessment.valleys, scene.now, chosen, step)
            if valley is not None:
                position.choose(valley, scene.now)
        self.draw()

    def pick(self, unique: str) -> None:
        """The row of the list that was clicked."""
        valley = next((item for item in self._session.assessment.valleys if item.id == unique), None)
        if valley is not None:
            self.move(lambda position, now: position.choose(valley, now))

    def scroll(self, pages: int) -> None:
        """Through the whole argument."""
        self._lower.scroll(pages)
        self.draw()

    def toggle_lane(self, digit: int) -> None:
        """Fold or unfold the lanes of that digit."""
        self._choice.toggle(digit)
        self.draw()

    def step_focus(self, step: int) -> None:
        """Look at the next server or device, or at everything again."""
        found = focuses(self._session.timeline)
        if not found:
            self.answer_line("There is one server and one device: all of it is on screen.")
            return
        self._focus = next_focus(found, self._focus, step)
        self.draw()

    def enlarge_lane(self, digit: int) -> None:
        """Give the lanes of that digit most of the rows, or none more than usual."""
        self._choice.enlarge(digit)
        self.draw()

    def lift_lane(self, digit: int) -> None:
        """Put the lanes of that digit on top."""
        self._choice.lift(digit)
        self.draw()

    def step_valley(self, step: int) -> None:
        """Select the next or previous valley, or say why not."""
        if self._position is not None:
            now, scene = self._session.now, self.scene()
            valleys = [valley for valley in scene.assessment.valleys if self._lower.listing.admits(valley)]
            if not valleys and scene.assessment.valleys:
                filtered = f"None of {len(scene.assessment.valleys)} valleys: {self._lower.listing.says()}."
                self.answer_line(scene.clean(f"{filtered} Esc drops the filter."))
            elif not valleys:
                self.answer_line(scene.none_found)
            elif says := self._position.step_valley(step, valleys, scene.valley, now):
                self.answer_line(says)
            self.draw()

    def zoom_to_valley(self) -> None:
        valley = self.scene().valley
        if valley is None:
            self.answer_line("No valley to zoom to.")
        else:
            self.move(lambda position, now: position.zoom_to(valley, now))

    def zoom_reset(self) -> None:
        """About a minute of what goes on; of what does not any more, all of it."""
        session = self._session
        if session.ended is None:
            self.move(lambda position, now: position.zoom_reset(now))
        else:
            self.move(lambda position, now: position.show_whole(*session.reach))

    def on_pointed_at(self, message: PointedAt) -> None:
        self._notice.end_answer()
        place, scene = message.x - self._widths.gutter, self.scene()
        if 0 <= place < self._widths.cells:
            valley = valley_at(scene, scene.view.time_at(scene.places.column(place)))
            self.move(lambda position, now: position.point_at(place, valley))

    def on_drawn_over(self, message: DrawnOver) -> None:
        self._notice.end_answer()
        first, last = (min(max(x - self._widths.gutter, 0), self._widths.cells - 1) for x in (message.start, message.x))
        self.move(lambda position, now: position.drag(first, last))

    def go_to(self, text: str) -> None:
        """Put the cursor at a moment that somebody typed, or say what may be typed."""
        scene = self.scene()
        try:
            t = times.parse(text, scene.start, scene.zone, scene.now)
        except ValueError as error:
            self.answer_line(str(error))
            return
        if not 0.0 <= t <= scene.now:
            first, last = scene.clock(0.0), scene.clock(scene.now)
            self.answer_line(f"Nothing was measured then: this stream goes from {first} to {last}.")
            return
        self.move(lambda position, now: position.go_to(t))

    def on_wheel_turned(self, message: WheelTurned) -> None:
        self._notice.end_answer()
        place = min(max(message.x - self._widths.gutter, 0), self._widths.cells - 1)
        self.move(lambda position, now: position.zoom_at(message.steps, place, now))

    def mark_range(self) -> None:
        """Begin a range at the cursor, or let go of it and say what may be done with it."""
        self.move(lambda position, now: position.mark())
        position, scene = self._position, self.scene()
        if position is not None and scene.selected is not None and not position.marking:
            start, end = scene.selected
            snapshot, trace, back = (
                shown_all(self._options.keys[name], ascii_only=True) for name in ("snapshot", "trace", "back")
            )
            self.answer_line(
                f"Selected {scene.clock(start, 1)} to {scene.clock(end, 1)}: "
                f"{snapshot} snapshot of it, {trace} trace, {back} drops it."
            )

    def stretch(self) -> tuple[float, float]:
        """What is selected, or on screen, of what was measured (seconds of the stream)."""
        scene = self.scene()
        start, end = scene.selected or (scene.view.start, scene.view.end)
        return max(0.0, start), min(end, scene.now)

    async def save(self) -> Path:
        """Write what is selected, or on screen, to a file. Raises OSError."""
        import asyncio

        session, (start, end) = self._session, self.stretch()
        return await asyncio.to_thread(session.feed.save, start, end, session.verdicts(start, end))
