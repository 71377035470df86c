"""A question that one key answers, in the last line."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static


class OneKey(ModalScreen[str | None]):
    """Dismissed with the key among ``choices`` (each a key and its name) that was pressed; any other key leaves
    everything as it was. As many lines as it takes to show all of them."""

    def __init__(self, question: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="one-key")

    def on_resize(self) -> None:
        words = (f"{self._question}:", *(f"{key} {name}" for key, name in self._choices))
        lines = [""]
        for word in words:
            if lines[-1] and len(lines[-1]) + 2 + len(word) >= self.size.width:
                lines.append("")
            lines[-1] += f"  {word}" if lines[-1] else f" {word}"
        self.query_one("#one-key", Static).update("\n".join(lines))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        pressed = event.character
        self.dismiss(pressed if any(pressed == key for key, _ in self._choices) else None)
