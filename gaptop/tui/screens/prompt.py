"""A question in the last line: one line of text, Enter takes it, Esc leaves everything as it was."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Prompt(ModalScreen[str | None]):
    """Dismissed with the text, or with None."""

    BINDINGS = [Binding("escape", "leave", "close", tooltip="Leave everything as it was", id="close_prompt")]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Static(f" {self._question} ", markup=False, id="question")
            yield Input(self._value, compact=True, id="answer")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss(None)
