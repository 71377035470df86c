"""What the screen writes beside snapshots: a picture, a verdict as text, a trace for Perfetto."""

from __future__ import annotations

import json
import socket
from itertools import count
from pathlib import Path

from gaptop import __version__
from gaptop.cli.new_file import write_new
from gaptop.cli.paths import new_recording, places
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.model import Assessment


class Keeper:
    """Writes new files into the working directory, or the state folder where that may not be written."""

    def put(self, suffix: str, text: str) -> Path:
        """Write a new file whose name tells when and where; never over one that exists. Raises OSError."""
        path = new_recording(socket.gethostname(), places()[0]).with_suffix(suffix)
        stem = path.stem
        for number in count(2):
            try:
                write_new(path, text)
                break
            except FileExistsError:
                path = path.with_stem(f"{stem}-{number}")
        return path

    def trace(self, timeline: Timeline, assessment: Assessment, start: float, end: float) -> str:
        """The trace of [start, end] (seconds of the stream) as JSON, with every thread whose stacks were seen."""
        from gaptop.export.labels import ThreadLabel
        from gaptop.export.perfetto import perfetto
        from gaptop.valleys.scope import process_ref

        threads = []
        for thread in timeline.threads():
            process = process_ref(timeline.sources[thread.source].info)
            threads.append((ThreadLabel(process.name, process.pid, timeline.thread_name(thread), thread.tid), thread))
        made = perfetto(timeline, assessment.valleys, threads, start, end, f"gaptop {__version__}")
        return json.dumps(made, separators=(",", ":"), allow_nan=False) + "\n"
