"""Which causes the list shows: each of them with its letter and how many valleys it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gaptop.tui import palette
from gaptop.valleys.model import CAUSE_NAMES, LETTERS, Cause, Valley

_CAUSES: Final = {letter: cause for cause, letter in LETTERS.items()}


class ChooseCauses(ModalScreen[frozenset[Cause] | None]):
    """Dismissed with the chosen causes (none: all), or with None where Esc left everything as it was."""

    BINDINGS = [
        Binding("escape", "leave", "close", tooltip="Leave the filter as it was", id="close_causes"),
        Binding("enter,f", "take", "filter", tooltip="Show only what is marked", priority=True, id="take_causes"),
        Binding("space", "mark", "mark", tooltip="Mark a cause, or not", priority=True, id="mark_cause"),
    ]

    def __init__(self, valleys: Sequence[Valley], chosen: frozenset[Cause]) -> None:
        super().__init__()
        self._counts = Counter(valley.verdict.cause for valley in valleys)
        self._chosen = set(chosen)
        self._listed = [cause for cause in LETTERS if self._counts[cause] or cause in chosen]

    def compose(self) -> ComposeResult:
        yield Static("Filter: a letter or space marks a cause, Enter filters, Esc leaves it", id="causes-title")
        yield OptionList(*(Option(self._line(cause), id=cause) for cause in self._listed), id="causes")

    def on_key(self, event: events.Key) -> None:
        """A cause's own letter marks it; a small one does where no cause has it for its own."""
        letter = event.character or ""
        cause = _CAUSES.get(letter) or _CAUSES.get(letter.upper())
        if cause in self._listed:
            self._toggle(self._listed.index(cause))
            event.stop()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click."""
        self._toggle(event.option_index)

    def action_mark(self) -> None:
        place = self.query_one(OptionList).highlighted
        if place is not None:
            self._toggle(place)

    def action_take(self) -> None:
        self.dismiss(frozenset(self._chosen))

    def action_leave(self) -> None:
        self.dismiss(None)

    def _toggle(self, place: int) -> None:
        cause = self._listed[place]
        self._chosen ^= {cause}
        self.query_one(OptionList).replace_option_prompt_at_index(place, self._line(cause))

    def _line(self, cause: Cause) -> Text:
        """The mark reads without colour."""
        line = Text(f"[{'x' if cause in self._chosen else ' '}] ", palette.PLAIN)
        line.append(f"{LETTERS[cause]} ", palette.cause_style(cause, bold=True))
        return line.append(f"{CAUSE_NAMES[cause]} ({self._counts[cause]})", palette.PLAIN)
