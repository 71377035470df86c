"""A page of a browser in place of a terminal: the screen ends with its page, and with the server that shows it."""

from __future__ import annotations

import os
from typing import Final

from textual import messages
from textual.drivers.web_driver import WebDriver

from gaptop.tui.packets import PRELUDE, prelude
from gaptop.tui.terminal import leave_soon

_INPUT_ENDS: Final = 1.0
"""Seconds. Textual's input thread looks ten times a second whether it shall end."""


class PageDriver(WebDriver):
    """Textual's own driver for textual-serve, which does not end with its input, nor where nobody takes its output, and
    which knows of one screen only: where another one follows, the page stays as it is."""

    def start_application_mode(self) -> None:
        write = self._write
        self._write = lambda piece: write(prelude() if piece == PRELUDE else piece)  # type: ignore[assignment]
        super().start_application_mode()
        if not self._mouse:
            self._disable_mouse_support()

    def stop_application_mode(self) -> None:
        super().stop_application_mode()
        if self._followed:
            # What is left of this screen's input is for the next one.
            self._key_thread.join(_INPUT_ENDS)

    def write_meta(self, data: dict[str, object]) -> None:
        if not (self._followed and data.get("type") == "exit"):
            super().write_meta(data)

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "quit":
            leave_soon()
        if packet_type == "resize":
            # A screen that follows begins with the size of the environment.
            os.environ.update(COLUMNS=str(payload["width"]), ROWS=str(payload["height"]))
        super().on_meta(packet_type, payload)

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            leave_soon()
            self._app.post_message(messages.ExitApp())

    @property
    def _followed(self) -> bool:
        return bool(getattr(self._app, "followed", False))
