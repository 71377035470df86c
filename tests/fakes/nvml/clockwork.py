"""Run NvmlDevices in virtual time, with the real binding and the stand-in library, as fast as the machine can.

    python -m tests.fakes.nvml.clockwork '{"seconds": 300, "jitter": 0.05, "seed": 1, "pids": []}'

All clocks that Python code reads as ``time.…`` are those of the stand-in library, which stand still while the code
runs: only waiting for the next sample moves them on, and calls that the configuration makes slow. Messages are printed
as watch.py prints them, and after each sample {"is": "Sampled", "time_ns": virtual CLOCK_MONOTONIC}.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from gaptop_collectors.devices import nvml_calls
from tests.fakes.nvml.clocks import BEGIN_NS, Clocks
from tests.fakes.nvml.watch import show, watched


def main() -> None:
    how: dict[str, Any] = json.loads(sys.argv[1])
    nvml_calls.waited_ns = lambda: 0  # it is told in real time
    clocks = Clocks({float(at): by for at, by in how.get("wall_steps", {}).items()})
    chance = random.Random(how.get("seed", 0))
    jitter, end = how.get("jitter", 0.0), BEGIN_NS + round(how["seconds"] * 1e9)

    def sampled() -> None:
        print(json.dumps({"is": "Sampled", "time_ns": clocks.now()}))

    with watched(how.get("pids", ()), Path(how["state"]) if how.get("state") else None) as devices:
        show(devices.open())
        sampled()
        due = clocks.now() + round(devices.period * 1e9)
        while (at := due + round(chance.uniform(0, jitter) * 1e9)) <= end:
            if at > clocks.now():
                clocks.reach(at)
            show(devices.sample())
            sampled()
            due = max(due + round(devices.period * 1e9), clocks.now())


if __name__ == "__main__":
    main()
