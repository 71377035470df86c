"""Which valleys are listed and selected, which number of the argument, which time; questions in the last line."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.tui.actions.acting import Acting
from gaptop.tui.keys import NAMES
from gaptop.tui.listing import ORDERS
from gaptop.tui.lower import Mode
from gaptop.tui.screens.causes import ChooseCauses
from gaptop.tui.screens.one_key import OneKey
from gaptop.tui.screens.prompt import Prompt
from gaptop.tui.times import HOW
from gaptop.valleys.model import Cause

_LANES: Final = tuple((str(digit), name) for digit, name in NAMES)


class Choosing(Acting):
    """The list, the whole argument, filters, selections."""

    def action_below(self, mode: Mode) -> None:
        self._main.show_below(mode)

    def action_up_or_down(self, step: int) -> None:
        self._main.up_or_down(step)

    def action_scroll(self, pages: int) -> None:
        self._main.scroll(pages)

    def action_pick(self, unique: str) -> None:
        self._main.pick(unique)

    def action_list_order(self, order: str) -> None:
        if order in ORDERS:
            self._main.listing = replace(self._main.listing, order=order)

    def action_next_order(self) -> None:
        self._main.listing = self._main.listing.next_order()

    def action_filter_causes(self) -> None:
        """Ask which causes the list shows."""

        def take(causes: frozenset[Cause] | None) -> None:
            if causes is not None:
                self._main.listing = replace(self._main.listing, causes=causes)

        self.push_screen(ChooseCauses(self._session.assessment.valleys, self._main.listing.causes), take)

    async def action_filter_text(self) -> None:
        """Ask what the listed valleys must say."""

        def take(text: str | None) -> None:
            if text is not None:
                self._main.listing = replace(self._main.listing, text=text)

        await self.push_screen(Prompt("only valleys that say:", self._main.listing.text), take)

    def action_focus_on(self, step: int) -> None:
        self._main.step_focus(step)

    def action_enlarge(self) -> None:
        """Ask which lane gets most of the rows."""

        def take(digit: str | None) -> None:
            if digit is not None:
                self._main.enlarge_lane(int(digit))

        self.push_screen(OneKey("Enlarge (again: as usual)", _LANES), take)

    def action_lift(self) -> None:
        """Ask which lane goes to the top."""

        def take(digit: str | None) -> None:
            if digit is not None:
                self._main.lift_lane(int(digit))

        self.push_screen(OneKey("Move to the top", _LANES), take)

    def action_mark_range(self) -> None:
        self._main.mark_range()

    async def action_go_to_time(self) -> None:
        """Ask for a moment."""

        def take(text: str | None) -> None:
            if text:
                self._main.go_to(text)

        await self.push_screen(Prompt(f"go to ({HOW}):"), take)
