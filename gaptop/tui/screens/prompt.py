"""A question in the last line: one line of text, Enter takes it, Esc leaves everything as it was."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Answer(Input):
    """What is typed on after Enter is for what comes next: it comes here only as Enter is still on its way."""

    _given = False

    async def _on_key(self, event: events.Key) -> None:
        if not self._given:
            self._given = event.key == "enter"
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        again = events.Key(event.key, event.character)
        again.set_sender(self.app)
        self.app.post_message(again)


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
            yield Answer(self._value, compact=True, id="answer")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss(None)
