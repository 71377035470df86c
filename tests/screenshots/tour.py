"""A recorded minute beside the lab: what README's pictures show. Everything on them was measured there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gaptop.cli.demo import probe_config_of
from gaptop.cli.probe_lines import LiveLines
from gaptop.lab.launch import Lab
from gaptop.recording.lines import Line
from gaptop.recording.reader import open_stream
from gaptop.recording.writer import StreamWriter

RECORDING: Final = Path(__file__).parent.parent / "data" / "lab" / "tour.gaptop"
SECONDS: Final = 62.0


def record(path: Path = RECORDING) -> None:
    """Make the recording anew (about a minute)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    writer = StreamWriter(path, compress=True)
    with Lab() as lab, LiveLines(probe_config_of(lab.start("tour", 1))) as lines:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            raw = lines.take(0.25)
            if raw is not None:
                writer.write(raw)
    writer.close()


class RecordedFeed:
    """The screen's Feed on a recording, read at once; it ends where the recording does."""

    live = True

    def __init__(self, path: Path = RECORDING) -> None:
        self._lines: list[Line] = list(open_stream(path))

    def drain(self, limit: int) -> list[Line]:
        drained, self._lines = self._lines[:limit], self._lines[limit:]
        return drained

    def ended(self) -> str | None:
        return None

    def send(self, command: Mapping[str, Any]) -> None:
        """A recording takes no commands."""

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        raise OSError("a picture saves nothing")

    def close(self) -> None:
        self._lines = []
