"""What the screen is given: where its lines come from, and how it may draw. The command line makes both.

Textual reads its keys from file descriptor 0. Where standard input is the stream itself (``gaptop open -``) the command
line hands the pipe to the feed and reopens /dev/tty as descriptor 0 before it starts the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol

from gaptop.recording.lines import Line


class Feed(Protocol):
    """A probe, a file or a pipe. Every method is called from the screen's one thread, except ``save``."""

    live: bool
    """False for a recording: then there is no "now" to return to but its end."""

    def drain(self, limit: int) -> list[Line]:
        """The next lines, at most ``limit``, in order; never waits."""
        ...

    def ended(self) -> str | None:
        """Why no more lines will come, as a phrase; None while some may."""
        ...

    def send(self, command: Mapping[str, Any]) -> None:
        """A command for the probe; a recording ignores it."""
        ...

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        """Write a snapshot of [start, end] and say where. Raises OSError. Runs in a thread while nothing is drained."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """How to draw. ``ascii`` None asks locale and TERM, ``timezone`` None is the viewer's own, ``fps`` is a ceiling."""

    ascii: bool | None = None
    mouse: bool = True
    fps: float = 4.0
    log_path: str = ""
    version: str = ""
    title: str = "gaptop"
    timezone: tzinfo | None = None
