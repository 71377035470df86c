"""An application that knows what ended it: an exception that nothing expected, or a terminal that has gone."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from rich.console import RenderableType
from textual.app import App
from textual.worker import WorkerFailed

from gaptop.tui import terminal

_LOOK: Final = 0.5
"""Seconds between two looks at the terminal: nobody tells of its end where hangups are ignored."""


class MortalApp(App[None]):
    """``broke`` is the first such exception. Textual itself would print its traceback with every local variable, with
    secrets and unclean text, and end with exit code 1; here whoever runs the application tells it."""

    broke: Exception | None = None
    followed = False
    """Whether it ends to make room for another one."""
    _attached = False

    def on_mount(self) -> None:
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.terminal_lost)
        loop.add_signal_handler(signal.SIGTERM, self.exit)
        self._attached = not terminal.is_lost()
        self.set_interval(_LOOK, self._look_at_terminal)

    def terminal_lost(self) -> None:
        """End at once, and by force where the lost terminal blocks that."""
        terminal.leave_soon()
        self.exit(return_code=129)

    def break_from_thread(self, error: BaseException | None) -> None:
        """End it because of what a thread died of, which nobody would notice. Called on that thread."""
        if isinstance(error, Exception):
            self._note(error)
            if self.is_running:
                self.call_later(self._handle_exception, error)

    def _look_at_terminal(self) -> None:
        if self._attached and terminal.is_lost():
            self.terminal_lost()

    def _note(self, error: Exception) -> None:
        # Without its terminal everything fails that reads and writes there.
        if self.broke is None and not (self._attached and terminal.is_lost()):
            self.broke = error

    def _handle_exception(self, error: Exception) -> None:
        """Textual calls this for every exception of a handler, a timer, a worker or while drawing."""
        inner = error.error if isinstance(error, WorkerFailed) else None
        self._note(inner if isinstance(inner, Exception) else error)
        self._look_at_terminal()
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """Nothing is printed."""
        self._close_messages_no_wait()
