"""A feed with one line more: what this gaptop has to say about itself, which no probe can know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gaptop.recording.lines import Line
from gaptop.tui.feed import Feed


class Noticed:
    """The line comes with the first ones of the feed. It is not saved: a recording is read with the rules of whoever
    reads it."""

    def __init__(self, feed: Feed, notice: Line) -> None:
        self.live = feed.live
        self._feed = feed
        self._notice: Line | None = notice

    def drain(self, limit: int) -> list[Line]:
        lines = self._feed.drain(limit)
        if lines and self._notice is not None:
            lines.append(self._notice)
            self._notice = None
        return lines

    def ended(self) -> str | None:
        return self._feed.ended()

    def send(self, command: Mapping[str, Any]) -> None:
        self._feed.send(command)

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        return self._feed.save(start, end, verdicts)

    def close(self) -> None:
        self._feed.close()
