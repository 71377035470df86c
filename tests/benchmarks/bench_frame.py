"""What a frame of the screen costs beside a minute and beside an hour of history: it may not depend on that.

A frame is all work between new lines (which are applied before) and Textual's compositor, at 120x40.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from gaptop.recording.lines import Line, Tick
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop_collectors.host.activities import load_activities
from tests.benchmarks import hour
from tests.benchmarks.table import Row, told

_SIZE: Final = (120, 40)
_FRAMES: Final = 160
_MINUTE, _HOUR = 60, 3600


class _Feed:
    """Gives its lines up to a tick, then nothing until it is asked to go on."""

    live = True

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._next: list[Line] = []

    def go_on(self) -> float:
        """The next lines up to a tick; its time."""
        for line in self._lines:
            self._next.append(line)
            if isinstance(line, Tick):
                return line.t
        raise ValueError("the made stream is too short")

    def drain(self, limit: int) -> list[Line]:
        drained, self._next = self._next[:limit], self._next[limit:]
        return drained

    def ended(self) -> str | None:
        return None

    def send(self, command: Mapping[str, Any]) -> None:
        """Nobody listens."""

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        raise OSError("a benchmark saves nothing")

    def close(self) -> None:
        """Nothing to close."""


class _Screen:
    """An app that knows so many seconds."""

    def __init__(self, seconds: int) -> None:
        self._feed = _Feed(hour.lines(seconds + _FRAMES))
        self._seconds = seconds
        options = ScreenOptions(ascii=False, fps=0.001)
        self.app = GaptopApp(self._feed, load_activities().classify, options)

    def fill(self) -> None:
        while self._feed.go_on() < self._seconds:
            while self.app._session.pump(1.0):
                pass

    def frame(self) -> float:
        """CPU seconds of the next one."""
        self._feed.go_on()
        self.app._session.pump(1.0)
        begun = time.process_time()
        self.app._main.tick()
        return time.process_time() - begun


async def _measure() -> tuple[list[float], list[float]]:
    """Seconds of frames of both, which take turns so that other load meets both alike."""
    took: tuple[list[float], list[float]] = ([], [])
    screens = _Screen(_MINUTE), _Screen(_HOUR)
    async with AsyncExitStack() as stack:
        pilots = [await stack.enter_async_context(one.app.run_test(size=_SIZE)) for one in screens]
        for one in screens:
            with one.app._context():
                one.fill()
        for _ in range(_FRAMES):
            for one, pilot, times in zip(screens, pilots, took, strict=True):
                with one.app._context():
                    times.append(one.frame())
                    await pilot.pause(0)
    return took


def main() -> list[Row]:
    """Rows for the table."""
    short, long = ([seconds for seconds in times if seconds > 0] for times in asyncio.run(_measure()))
    ratio = statistics.mean(long) / statistics.mean(short)
    return [
        told("screen: a frame at 120x40, a minute known (CPU)", f"{statistics.mean(short) * 1e3:.1f} ms"),
        ("screen: a frame with 1 h of history over 1 min", f"{ratio:.3f} ×", "≤ 1.10 ×", ratio <= 1.1),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  |  ")
