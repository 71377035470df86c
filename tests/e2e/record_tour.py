"""The minute beside the live lab that several tests read. ``python -m tests.e2e.record_tour`` records it anew."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from gaptop.cli.demo import probe_config_of
from gaptop.cli.probe_lines import LiveLines
from gaptop.lab.launch import Lab
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


if __name__ == "__main__":
    record()
