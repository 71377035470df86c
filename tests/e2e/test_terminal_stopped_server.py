"""A server that is stopped: its source's state and age are in the header at once, and no silence is invented."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import FakeServer
from tests.e2e.processes import wait_for
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
AGE = re.compile(r"[○✗] metrics \w+ ([\d.]+) s")


def test_a_stopped_server(tmp_path: Path, fake_server: Callable[[], FakeServer]) -> None:
    server = fake_server()
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {server.url}; echo code=$?")
        terminal.until("LIVE", "● metrics", "4 run", "200 tok/s", seconds=30)
        time.sleep(3)
        server.process.send_signal(signal.SIGSTOP)
        took = wait_for(lambda: AGE.search(terminal.screen()), "the header names the state of the metrics", 2.5)
        print(f"the header names the state after {took:.2f} s")
        ages = []
        for _ in range(3):
            match = AGE.search(terminal.screen())
            assert match is not None
            ages.append(float(match[1]))
            time.sleep(1.3)
        assert ages == sorted(set(ages)), "the age grows"
        assert ages[-1] - ages[0] > 1
        server.process.send_signal(signal.SIGCONT)
        terminal.until("LIVE", "● metrics", "● threads")
        time.sleep(4)
        terminal.press("s")
        terminal.until("Snapshot written")
        terminal.press("q")
        terminal.until("code=0")
    [snapshot] = tmp_path.glob("*.gaptop")
    done = subprocess.run([GAPTOP, "report", snapshot, "--json"], capture_output=True, text=True, timeout=30)
    report = json.loads(done.stdout)
    assert "no_demand" not in {valley["cause"] for valley in report["valleys"]}
    [metrics] = [source for source in report["health"] if source["source"].startswith("metrics/")]
    assert metrics["coverage_ratio"] < 0.95, "the hole is a hole"
