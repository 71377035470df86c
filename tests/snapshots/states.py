"""The canned minute in the states that a screen can be in: each is an app, and what is done to it before the picture.

Nothing here waits for a clock: frames are drawn because they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

from textual.pilot import Pilot

from gaptop.recording.lines import Batch, Event, Health, Hole, Line, Watermark
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from tests.screenshots.canned import DEVICE, CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

MINUTE: Final = 60.0
LATER: Final = 72.75
"""When a view that was held at the minute's end is 12 s old, in columns of each of the sizes."""
GONE: Final = (
    "GPU 0 does not answer any more (GPU is lost), so its lanes have a hole from here: it has fallen off the bus; see "
    "dmesg for an Xid (79), and reboot the machine."
)


@dataclass(frozen=True, slots=True)
class State:
    """``lines`` are there at the start, ``later`` come after the first frame and ``keys``."""

    lines: Sequence[Line]
    keys: tuple[str, ...] = ()
    later: Sequence[Line] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def app(self) -> GaptopApp:
        usual = {"ascii": False, "fps": 0.01, "version": "0.1.0", "log_path": "~/gaptop.log", "timezone": UTC}
        options = ScreenOptions(**{**usual, **self.options})
        return GaptopApp(CannedFeed(self.lines), classify, options, CannedAnalysis, lambda: 0.0)

    async def reach(self, pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, GaptopApp)
        await pilot.pause(0.2)
        await pilot.press(*self.keys)
        if self.later:
            feed = app._session.feed
            assert isinstance(feed, CannedFeed)
            feed.add(*self.later)
        app._tick()
        await pilot.pause(0.2)


def _until(length: float) -> list[Line]:
    return list(stream(length))


def _lost(since: float, length: float) -> Iterator[Line]:
    """The device falls off the bus: nothing comes from it any more, and its source says what to do."""
    for line in stream(length):
        match line:
            case Batch(src=src, t=times) if src == DEVICE and times[0] > since:
                continue
            case Watermark(src=src, t=t) if src == DEVICE and t > since:
                continue
            case Health(src=src, t=t) if src == DEVICE and t > since:
                yield Hole(DEVICE, since, t, "GPU is lost")
                yield Health(t, src, line.collector, "failing", since, line.period, line.cost, GONE)
            case _:
                yield line
    yield Event(since, "gpu_lost", GONE.partition(",")[0] + ".", DEVICE)


_MINUTE: Final = _until(MINUTE)

STATES: Final = {
    "live": State(_MINUTE),
    "paused": State(_MINUTE, ("space",), _until(LATER)[len(_MINUTE) :]),
    "zoomed": State(_MINUTE, ("n", "n", "enter")),
    "lost": State(list(_lost(60.0, 72.0))),
    "no-colour": State(_MINUTE, options={"colours": "none"}),
    "ascii": State(_MINUTE, options={"ascii": True}),
    "sweep": State(_until(64.0), options={"sweep": "on"}),
}
