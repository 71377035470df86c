"""Renders README's pictures: ``python -m tests.screenshots [FOLDER]`` (./dev screenshots). The same each time."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Final

from gaptop import __version__
from gaptop.recording.lines import Line
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop_collectors.host.activities import load_activities
from tests.screenshots.streams import WholeFeed, recorded, simulated


@dataclass(frozen=True, slots=True)
class Picture:
    """``size`` in cells, ``keys`` pressed before it is taken; of the lab's minute, else of the ``real`` vLLM."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    real: bool = False
    theme: str = "ansi-dark"


PICTURES: Final = (
    Picture("dashboard", (120, 40)),
    Picture("zoomed", (120, 40), ("n", "N", "enter")),
    Picture("valleys", (120, 40), ("v",)),
    Picture("small", (80, 24)),
    Picture("vllm", (120, 40), real=True),
    Picture("light", (80, 24), theme="textual-light"),
    Picture("help", (120, 40), ("question_mark",)),
)


async def drawn(picture: Picture, lines: list[Line]) -> str:
    """One screen as SVG, once all lines are read. Frames are drawn because they are asked for, not by a clock."""
    options = ScreenOptions(
        ascii=False, fps=0.01, version=__version__, log_path="~/gaptop.log", timezone=UTC, theme=picture.theme
    )
    feed = WholeFeed(lines, live=not picture.real)
    app = GaptopApp(feed, load_activities().classify, options, clock=lambda: 0.0)
    async with app.run_test(size=picture.size) as pilot:
        for _ in range(2):
            app._tick()
            await pilot.pause(0.2)
        await pilot.press(*picture.keys)
        await pilot.pause(0.5)
        return app.export_screenshot(title="gaptop", simplify=True)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    lines = {False: simulated(), True: recorded()}
    for picture in PICTURES:
        target = folder / f"{picture.name}.svg"
        target.write_text(asyncio.run(drawn(picture, lines[picture.real])), encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
