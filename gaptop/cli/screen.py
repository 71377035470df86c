"""Starts the Textual screen on a feed. Imported only by commands that have a terminal.

Textual and numpy take most of the time to the first frame, so they are loaded while the probe starts.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gaptop import __version__
from gaptop.cli import crash
from gaptop.cli.exits import Exit, broken
from gaptop.cli.feeds import LiveFeed, StreamFeed
from gaptop.cli.keeper import Keeper
from gaptop.cli.look import Look
from gaptop.cli.own_terminal import take_terminal
from gaptop.cli.paths import log_path, no_log
from gaptop.tui.feed import Feed

_YOUNG: Final = 10_000
"""New objects between two looks for unreachable ones: loading makes many that stay."""


def run_live(config: Mapping[str, Any], look: Look) -> Exit:
    """The screen beside a probe of its own, until the user quits."""
    with LiveFeed(config) as feed:
        return _run(feed, look)


def run_stream(source: Path | int, look: Look) -> Exit:
    """The screen on a file, or on the open file descriptor of a pipe."""
    feed = StreamFeed(source if isinstance(source, Path) else os.fdopen(source, "rb", buffering=0))
    try:
        return _run(feed, look)
    finally:
        feed.close()


def load() -> None:
    """Load what the screen is made of, while something else is waited for."""
    gc.set_threshold(_YOUNG)
    import gaptop.cli.session
    import gaptop.tui.app  # noqa: F401


def _run(source: LiveFeed | StreamFeed, look: Look) -> Exit:
    gc.set_threshold(_YOUNG)
    from gaptop.cli.noticed import Noticed
    from gaptop.cli.own_rules import rules
    from gaptop.tui.app import GaptopApp

    take_terminal()
    found = rules()
    feed: Feed = source if found.notice is None else Noticed(source, found.notice)
    options = look.screen_options(log_path=str(log_path() or f"none: {no_log()}"), version=__version__)
    options = replace(options, keeper=Keeper())
    app = GaptopApp(feed, found.classify, options)
    # What was loaded stays. Looking through all of it again and again took a fifteenth of the screen's CPU time.
    gc.freeze()
    error = crash.run(app, look.mouse)
    if error is not None:
        broken(error, crash.keep(source))
    return Exit.FINE
