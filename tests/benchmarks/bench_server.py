"""What being watched costs a server: CPU time for a unit of work with gaptop and without, in short turns.

Between the turns the probe and its recorders are stopped and continued by signals, so that both halves of a pair meet
the same machine. Scraping is part of it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from threading import Thread
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.table import Row, missing

_BODY: Final = Path(__file__).parents[1] / "data" / "vllm" / "0.32_bursty.prom"
_PAIRS: Final = 40
_TURN: Final = 0.5
_SETTLE: Final = 0.06
_BUDGET: Final = 0.01
_WARM: Final = 12.0
_WHAT: Final = "slowdown of a busy watched server (CPU per unit of work)"
Said = deque[tuple[int, float]]


def main() -> list[Row]:
    """Rows for the table."""
    command = [sys.executable, str(Path(__file__).with_name("busy_server.py")), str(_BODY)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    said: Said = deque(maxlen=1)
    Thread(target=_listen, args=(server, said), daemon=True).start()
    probe = _probe(server.pid, port)
    try:
        time.sleep(_WARM)
        ratios = [_pair(probe.pid, said, watched_first=bool(n % 2)) for n in range(_PAIRS)]
    finally:
        _signal(probe.pid, signal.SIGCONT)
        assert probe.stdin is not None
        probe.stdin.close()
        probe.wait(5)
        server.kill()
        server.wait()
    known = sorted(ratio for ratio in ratios if ratio is not None)
    if len(known) < _PAIRS // 2:
        return [missing(_WHAT, "the server did not get enough CPU time")]
    middle = statistics.median(known) - 1
    # Order statistics: of 40 pairs the 14th and the 27th hold the median in 96 of 100 cases.
    rank = round(len(known) / 2 - 1.1 * math.sqrt(len(known)))
    low, high = known[rank] - 1, known[-1 - rank] - 1
    # Where the interval holds the budget, this machine is too noisy to judge it.
    kept = None if low <= _BUDGET < high else middle <= _BUDGET
    return [(_WHAT, f"{middle:+.2%} ({low:+.2%} to {high:+.2%})", f"≤ {_BUDGET:.0%}", kept)]


def _pair(probe: int, said: Said, *, watched_first: bool) -> float | None:
    """CPU per unit while watched over the same while not; None where too little work was done."""
    costs = {}
    for watched in (watched_first, not watched_first):
        _signal(probe, signal.SIGCONT if watched else signal.SIGSTOP)
        time.sleep(_SETTLE)
        units, cpu = said[-1]
        time.sleep(_TURN)
        more, later = said[-1]
        if more - units < 10:
            return None
        costs[watched] = (later - cpu) / (more - units)
    return costs[True] / costs[False]


def _signal(probe: int, number: signal.Signals) -> None:
    for pid in (probe, *processes.children(probe)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _listen(server: subprocess.Popen[bytes], said: Said) -> None:
    assert server.stdout is not None
    for line in server.stdout:
        units, cpu = line.split()
        said.append((int(units), float(cpu)))


def _probe(pid: int, port: int) -> subprocess.Popen[bytes]:
    told = {"pid": pid, "role": "engine", "name": "busy server"}
    server = {"url": f"http://127.0.0.1:{port}", "engine": "vllm", "processes": [told]}
    probe = subprocess.Popen(
        [sys.executable, "-m", "gaptop.probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert probe.stdin is not None
    probe.stdin.write(json.dumps({"servers": [server], "gpu": False}).encode() + b"\n")
    probe.stdin.flush()
    return probe


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
