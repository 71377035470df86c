"""A question that one key answers, in the last line."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static


class OneKey(ModalScreen[str | None]):
    """Dismissed with the character among ``wanted`` that was pressed; any other key leaves everything as it was."""

    def __init__(self, question: str, wanted: str) -> None:
        super().__init__()
        self._question = question
        self._wanted = wanted

    def compose(self) -> ComposeResult:
        yield Static(f" {self._question}", markup=False, id="one-key")

    def on_key(self, event: events.Key) -> None:
        event.stop()
        pressed = event.character
        self.dismiss(pressed if pressed and pressed in self._wanted else None)
