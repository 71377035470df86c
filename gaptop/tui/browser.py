"""A page of a browser in place of a terminal: the screen ends with its page, and with the server that shows it."""

from __future__ import annotations

from textual import messages
from textual.drivers.web_driver import WebDriver

from gaptop.tui.terminal import leave_soon


class PageDriver(WebDriver):
    """Textual's own driver for textual-serve, which does not end with its input, nor where nobody takes its output."""

    def start_application_mode(self) -> None:
        super().start_application_mode()
        if not self._mouse:
            self._disable_mouse_support()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "quit":
            leave_soon()
        super().on_meta(packet_type, payload)

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            leave_soon()
            self._app.post_message(messages.ExitApp())
