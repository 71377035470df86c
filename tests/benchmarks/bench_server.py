"""What being watched costs a server: CPU time for a unit of work with gaptop and without. Scraping is part of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.pairs import slowdown
from tests.benchmarks.table import Row

_BODY: Final = Path(__file__).parents[1] / "data" / "vllm" / "0.32_bursty.prom"
_WARM: Final = 12.0
_WHAT: Final = "slowdown of a busy watched server (CPU per unit of work)"


def main() -> list[Row]:
    """Rows for the table."""
    command = [sys.executable, str(Path(__file__).with_name("busy_server.py")), str(_BODY)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    probe = _probe(server.pid, port)
    try:
        return [slowdown(_WHAT, server, lambda: (probe.pid, *processes.children(probe.pid)), _WARM)]
    finally:
        assert probe.stdin is not None
        probe.stdin.close()
        probe.wait(5)
        server.kill()
        server.wait()


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
