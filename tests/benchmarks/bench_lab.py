"""How much faster than real time the fast driver writes a recording and its truth: 16 sequences, 30 ms steps."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from gaptop.lab.core.simulation import Simulation
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.file import write
from gaptop.lab.scenarios import SCENARIOS
from tests.benchmarks.table import Row, told

_SECONDS = 120.0
_RUNS = 3
_LEAST = 200.0


def main() -> list[Row]:
    """Rows for the table; of some runs the best, for others on this machine's cores only slow it down."""
    scenario = SCENARIOS["reference"]
    alone, whole = [], []
    for number in range(_RUNS):
        begun = time.process_time()
        for _ in Simulation(scenario, number).events(_SECONDS):
            pass
        alone.append(time.process_time() - begun)
        with tempfile.TemporaryDirectory() as folder:
            run = Fast(scenario, number, _SECONDS)
            begun = time.process_time()
            write(run, Path(folder) / "run.gaptop")
            whole.append(time.process_time() - begun)
    ratio = _SECONDS / min(whole)
    return [
        ("lab: recording and truth, 16 sequences, 30 ms steps", f"{ratio:.0f} x real time", "≥ 200 x", ratio >= _LEAST),
        told("lab: of that the simulation alone", f"{_SECONDS / min(alone):.0f} x real time"),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
