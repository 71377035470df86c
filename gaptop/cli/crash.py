"""A screen that broke: what it had is kept in a file, and one sentence tells what happened and what to do."""

from __future__ import annotations

import logging
import shlex
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gaptop.cli.paths import new_recording, places
from gaptop.recording.spool import Spool
from gaptop.recording.writer import WriteError

if TYPE_CHECKING:
    from gaptop.tui.mortal import MortalApp


class Kept(Protocol):
    """A feed that can put all it has into a file without the help of the screen."""

    live: bool

    def keep(self) -> Path | None:
        """The file; None where nothing had come. Raises OSError."""
        ...


def keep_all(spool: Spool) -> Path | None:
    """All that the spool has in a new file, in the working directory or where that fails in the state folder; None
    where it has nothing. Nothing can be spooled afterwards. Raises OSError."""
    failed: WriteError | None = None
    for place in places():
        try:
            return spool.keep(new_recording(socket.gethostname(), place))
        except WriteError as error:
            failed = failed or error
    raise OSError(str(failed))


def run(app: MortalApp, mouse: bool) -> Exception | None:
    """Run it until the user quits; what broke it otherwise. Meanwhile an exception on any thread breaks it too: on a
    screen nobody would see that this thread has gone."""
    before = threading.excepthook
    threading.excepthook = lambda told: app.break_from_thread(told.exc_value)
    try:
        app.run(mouse=mouse)
    except Exception as error:
        return app.broke or error
    finally:
        threading.excepthook = before
    return app.broke


def keep(feed: Kept) -> str:
    """Keep what came, and say where, or why not. Never raises: what broke the screen is told in any case."""
    try:
        path = feed.keep()
    except (Exception, KeyboardInterrupt) as error:
        logging.getLogger(__name__).exception("nothing could be kept")
        return f"what was watched could not be kept ({str(error).rstrip('.') or type(error).__name__})"
    if path is None:
        return "nothing had been measured yet"
    if not feed.live:
        return f"the recording {path} is as it was (send it with the report)"
    return (
        f"what was watched, at most the last hour, is kept: gaptop open {shlex.quote(str(path))} shows it (send that "
        "file with the report)"
    )
