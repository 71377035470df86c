"""The screen on the canned minute, without a clock: the same picture each time."""

from __future__ import annotations

from datetime import UTC

from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from tests.screenshots.canned import CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis


def canned_app(length: float = 60.0, simulated: bool = False) -> GaptopApp:
    options = ScreenOptions(ascii=False, fps=0.01, version="0.1.0", log_path="~/gaptop.log", timezone=UTC)
    return GaptopApp(CannedFeed(list(stream(length, simulated))), classify, options, CannedAnalysis, lambda: 0.0)
