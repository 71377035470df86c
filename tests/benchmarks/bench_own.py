"""What gaptop itself costs beside the simulated server: CPU, memory, bytes to a 120x40 terminal, rolling and swept."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import processes
from tests.benchmarks.screen import Screen
from tests.benchmarks.table import Row, at_most, missing, share, told

_WARM = 22.0
"""py-spy's first windows find out what a sample costs here; its rate follows from the third on."""
_SECONDS = 24.0
_SETTLE = 2.0


def main() -> list[Row]:
    """Rows for the table."""
    with tempfile.TemporaryDirectory() as folder, Screen(["demo", "steady"], Path(folder)) as screen:
        if screen.until("quit", "busy") is None or (probe := processes.probe_of(screen.pid)) is None:
            return [missing("own cost", "gaptop demo did not come up")]
        time.sleep(_WARM)
        begun = time.monotonic()
        before, probe_before, size = processes.spent(screen.pid), processes.spent(probe), screen.size
        time.sleep(_SECONDS)
        after, probe_after = processes.spent(screen.pid), processes.spent(probe)
        wall = time.monotonic() - begun
        written = (screen.size - size) / wall
        everything = [screen.pid, probe, *processes.children(probe)]
        memory = _memory(everything)
        screen.press("w")
        time.sleep(_SETTLE)
        begun, size = time.monotonic(), screen.size
        time.sleep(_SECONDS)
        swept = (screen.size - size) / (time.monotonic() - begun)
    drawn = after.own - before.own
    measured, recorded = probe_after.own - probe_before.own, probe_after.children - probe_before.children
    return [
        share("probe without py-spy", measured / wall, 0.03),
        share("all py-spy recorders", recorded / wall, 0.04),
        share("screen, analysis included, 120x40", drawn / wall, 0.05),
        told("all of gaptop together", f"{(drawn + measured + recorded) / wall:.2%} of a core"),
        memory,
        at_most("bytes to the terminal, live, rolling", written / 1000, 20, "KB/s"),
        at_most("bytes to the terminal, live, swept", swept / 1000, 5, "KB/s"),
    ]


def _memory(pids: Sequence[int]) -> Row:
    what = "memory (PSS) of screen, probe and recorders"
    total = 0
    for pid in pids:
        try:
            total += processes.memory(pid)
        except FileNotFoundError:
            continue  # a recorder that has just ended
        except OSError as error:
            return missing(what, str(error))
    return at_most(what, total / 1e6, 200, "MB", 0)


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
