"""What being watched costs a real vLLM: its processes' CPU seconds for a generated token, with gaptop and without."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import psutil

from gaptop.cli.target import Target, choose, probe_config
from tests.benchmarks.pairs import slowdown
from tests.benchmarks.table import Row, missing, told
from tests.real import servers
from tests.real.conftest import engine_pid, warm_up

_WHAT: Final = "slowdown of a real vLLM (CPU seconds of its processes per generated token)"
_CONTROL: Final = "the same with nobody to stop and to continue: what chance makes of it here"
_WARM: Final = 15.0
_TURN: Final = 2.0
"""Seconds: some hundred tokens, several scrapes, a hundred samples of a thread."""
_PAIRS: Final = 40


def main() -> list[Row]:
    """Rows for the table."""
    if not (servers.cache() / servers.VLLM / ".complete").exists():
        return [missing(_WHAT, f"{servers.VLLM} is not in {servers.cache()} (tests/real/install_vllm.sh)")]
    with tempfile.TemporaryDirectory() as folder, servers.vllm(Path(folder)) as server:
        warm_up(server.url, "vllm")
        pids = server.pid, engine_pid(server.pid)
        probe = _probe(server.url)
        try:
            cost = _loaded(_WHAT, server.url, pids, lambda: _family(probe.pid), _PAIRS)
        finally:
            assert probe.stdin is not None
            probe.stdin.close()
            probe.wait(10)
        scrapes = server.log.read_text(errors="replace").count("GET /metrics/") / (_WARM + _PAIRS * _TURN)
        what, chance, *_ = _loaded(_CONTROL, server.url, pids, tuple, _PAIRS // 2)
        return [cost, told(what, chance), told("scrapes of that vLLM while watched", f"{scrapes:.1f} a second")]


def _loaded(what: str, url: str, pids: Sequence[int], watchers: Callable[[], Iterable[int]], pairs: int) -> Row:
    seconds = _WARM + 2 * pairs * (_TURN + 0.1) + 20
    command = [sys.executable, "-m", "tests.benchmarks.vllm_load", url, str(seconds), *map(str, pids)]
    load = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        return slowdown(what, load, watchers, _WARM, pairs=pairs, turn=_TURN)
    finally:
        load.kill()
        load.wait()


def _probe(url: str) -> subprocess.Popen[bytes]:
    """gaptop's measuring process as ``gaptop URL`` starts it."""
    target = Target(addresses=(url,))
    command = [sys.executable, "-m", "gaptop.probe"]
    probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert probe.stdin is not None
    probe.stdin.write(json.dumps(probe_config(target, choose(target))).encode() + b"\n")
    probe.stdin.flush()
    return probe


def _family(pid: int) -> list[int]:
    """The measuring process and its samplers."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
