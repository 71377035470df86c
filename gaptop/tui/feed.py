"""What the screen is given: where its lines come from, and how it may draw. The command line makes both.

Textual reads its keys from file descriptor 0. Where standard input is the stream itself (``gaptop open -``) the command
line hands the pipe to the feed and reopens /dev/tty as descriptor 0 before it starts the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol

from gaptop.recording.lines import Line
from gaptop.timeline.timeline import Timeline
from gaptop.tui.keymap import Keymap, usual
from gaptop.tui.looks import System
from gaptop.valleys.model import Assessment


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


class Keeper(Protocol):
    """Writes new files beside the snapshots, never over one that exists."""

    def put(self, suffix: str, text: str) -> Path:
        """Write it and say where. Raises OSError."""
        ...

    def trace(self, timeline: Timeline, assessment: Assessment, start: float, end: float) -> str:
        """[start, end] (seconds of the stream) as a trace for Perfetto."""
        ...


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """How to draw. ``ascii`` None asks locale and TERM, ``timezone`` None is the viewer's own, ``fps`` is a ceiling.

    ``colours`` is what the terminal can show, ``theme_kept`` tells what keeps a theme (with {} for its name), ``keys``
    are those in force, ``folded`` and ``order`` are lanes by their digits, ``notices`` are said at the start. Without a
    ``keeper`` only snapshots are written.
    """

    ascii: bool | None = None
    braille: bool = True
    colours: System = "true"
    theme: str = "ansi-dark"
    theme_kept: str = ""
    keys: Keymap = field(default_factory=usual)
    folded: frozenset[int] = frozenset()
    order: tuple[int, ...] = ()
    sweep: str = "auto"
    notices: tuple[str, ...] = ()
    config_path: str = ""
    keeper: Keeper | None = None
    mouse: bool = True
    fps: float = 4.0
    log_path: str = ""
    version: str = ""
    title: str = "gaptop"
    timezone: tzinfo | None = None
