"""A fast run into a recording, with the truth beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.truth import beside
from gaptop.recording.lines import Tick, encode
from gaptop.recording.writer import StreamWriter


def write(run: Fast, path: Path, said: Callable[[float], None] = lambda now: None) -> Path:
    """Into new files, for their owner alone, both or none; the truth's path. ``said`` is told of each tick. Raises
    WriteError for a recording, and OSError for a truth, that cannot be written, also where one exists."""
    now = 0.0
    # Its pieces end by the stream's own time, so that the same run gives the same bytes.
    writer = StreamWriter(path, compress=True, clock=lambda: now)
    made = [path]
    try:
        for line in run.lines():
            if isinstance(line, Tick):
                now = line.t
                said(now)
            writer.write(encode(line))  # nothing in it is anybody's secret, so nothing has to be redacted
        writer.close()
        truth = beside(path)
        descriptor = os.open(truth, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made.append(truth)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in run.told())
    except BaseException:
        # A part of it would be taken for a recording without a truth, and stand in the way of the next try.
        for file_made in made:
            file_made.unlink(missing_ok=True)
        raise
    return truth
