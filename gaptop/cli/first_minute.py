"""Where no server is found at the start: a screen that says so, looks again, and goes on with what appears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaptop import __version__
from gaptop.cli import crash
from gaptop.cli.exits import Exit, Stop, broken
from gaptop.cli.look import Look
from gaptop.cli.own_terminal import take_terminal
from gaptop.cli.target import Target, choose

if TYPE_CHECKING:
    from gaptop_collectors.target import Server


def servers_or_wait(target: Target, look: Look) -> Sequence[Server]:
    """The servers, once one of them answers; none where the user would not wait. Raises Stop for what waiting cannot
    mend."""
    try:
        return choose(target)
    except Stop as stop:
        if stop.exit_code != Exit.NOTHING_TO_OBSERVE:
            raise
        return wait_for_servers(target, stop.format_message(), look)


def wait_for_servers(target: Target, why: str, look: Look) -> Sequence[Server]:
    """As above, where a look has found none: ``why`` tells."""
    from gaptop.cli.doctor import sources_without_server
    from gaptop.tui.waiting import Waiting

    stopped: list[Stop] = []

    def look_again() -> object:
        try:
            return choose(target, lambda says: None)  # the screen stands where it would be said
        except Stop as stop:
            if stop.exit_code != Exit.NOTHING_TO_OBSERVE:
                stopped.append(stop)
                return stop
            return stop.format_message()

    take_terminal()
    app = Waiting(look_again, lambda: sources_without_server(target), why, look.screen_options("", __version__))
    error = crash.run(app, look.mouse)
    if error is not None:
        broken(error)
    if stopped:
        raise stopped[0]
    return app.found or ()  # type: ignore[return-value]  # what look_again returned
