"""What every area of actions works on."""

from __future__ import annotations

from gaptop.tui.feed import ScreenOptions
from gaptop.tui.screens.main import Dashboard
from gaptop.tui.session import Session
from gaptop.tui.themed import ThemedApp


class Acting(ThemedApp):
    """The application as actions see it; whoever is made of them sets these."""

    _main: Dashboard
    _session: Session
    _options: ScreenOptions
    _saving: bool
    """While it is true no line is drained."""
