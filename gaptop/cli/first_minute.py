"""Where no server is found at the start: a screen that says so, looks again, and goes on with what appears."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptop import __version__
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.look import Look
from gaptop.cli.target import Target, choose

if TYPE_CHECKING:
    from gaptop_collectors.target import Server


def wait_for_server(target: Target, why: str, look: Look) -> Server | None:
    """The server once it has appeared; None where the user would not wait. Raises Stop for what waiting cannot mend."""
    from gaptop.cli.doctor import sources_without_server
    from gaptop.tui.waiting import Waiting

    stopped: list[Stop] = []

    def look_again() -> object:
        try:
            return choose(target)
        except Stop as stop:
            if stop.exit_code != Exit.NOTHING_TO_OBSERVE:
                stopped.append(stop)
                return stop
            return stop.format_message()

    app = Waiting(look_again, lambda: sources_without_server(target), why, look.screen_options("", __version__))
    app.run(mouse=look.mouse)
    if stopped:
        raise stopped[0]
    return app.found  # type: ignore[return-value]  # what look_again returned
