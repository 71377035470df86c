"""The command palette, which never runs a row that the typed text has not selected."""

from __future__ import annotations

from typing import Final

from textual import on
from textual.command import CommandPalette
from textual.widgets import Input
from textual.worker import Worker, WorkerState

_DONE: Final = frozenset({WorkerState.SUCCESS, WorkerState.ERROR})


class Find(CommandPalette):
    """Textual's searches while one types, and Enter takes what is marked at that moment: right after fast typing a row
    of what was listed before. Here Enter waits for the search; more typing, or Esc, takes it back."""

    _searched = ""
    _entered: Input.Submitted | None = None
    """Enter was pressed, and what was typed until then is still searched for."""

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._searched = event.value
        if self._entered is not None and self._entered.value != event.value:
            self._entered = None

    @on(Input.Submitted)
    def _enter(self, event: Input.Submitted) -> None:
        if event.value != self._searched or any(
            worker.node is self and not worker.is_finished for worker in self.workers
        ):
            event.stop()
            event.prevent_default()
            self._entered = event

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """The search is done: Enter goes on."""
        entered = self._entered
        if entered is not None and event.state in _DONE and entered.value == self._searched:
            self._entered = None
            self.post_message(Input.Submitted(entered.input, entered.value, entered.validation_result))
