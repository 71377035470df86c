"""Renders README's pictures: ``python -m tests.screenshots [--record] [FOLDER]`` (./dev screenshots)."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC
from pathlib import Path
from typing import Final

from gaptop import __version__
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop_collectors.host.activities import load_activities
from tests.screenshots.canned import CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis
from tests.screenshots.tour import RecordedFeed, record

READ_SECONDS: Final = 12.0
"""The screen takes a recording in portions between frames."""

PICTURES: Final = (
    ("dashboard", (120, 40), ()),
    ("zoomed", (120, 40), ("n", "n", "enter")),
    ("small", (80, 24), ()),
    ("help", (120, 40), ("question_mark",)),
)
"""Name, size in cells, and keys pressed before the picture is taken."""


def canned_app(ascii_only: bool = False, length: float = 60.0, simulated: bool = False) -> GaptopApp:
    """The screen on the canned minute, without a clock: the same picture each time."""
    options = ScreenOptions(ascii=ascii_only, fps=0.01, version="0.1.0", log_path="~/gaptop.log", timezone=UTC)
    return GaptopApp(CannedFeed(list(stream(length, simulated))), classify, options, CannedAnalysis, lambda: 0.0)


async def picture(size: tuple[int, int], keys: tuple[str, ...]) -> str:
    """One screen as SVG."""
    options = ScreenOptions(ascii=False, fps=20, version=__version__, log_path="~/gaptop.log", timezone=UTC)
    app = GaptopApp(RecordedFeed(), load_activities().classify, options, clock=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(READ_SECONDS)
        await pilot.press(*keys)
        await pilot.pause(0.5)
        return app.export_screenshot(title="gaptop", simplify=True)


def main() -> None:
    arguments = sys.argv[1:]
    if "--record" in arguments:
        arguments.remove("--record")
        record()
    folder = Path(arguments[0] if arguments else "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    for name, size, keys in PICTURES:
        target = folder / f"{name}.svg"
        target.write_text(asyncio.run(picture(size, keys)), encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
