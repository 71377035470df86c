"""``gaptop lab score`` leaves no worker behind, however it ends, and ends soon."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

COMMAND = [sys.executable, "-m", "gaptop", "lab", "score", "--cases", "50", "--jobs", "2", "--missing", "0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_command(number: signal.Signals) -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 30
        workers: list[psutil.Process] = []
        while len(workers) < 2 and time.monotonic() < end:
            time.sleep(0.2)
            children = psutil.Process(process.pid).children()
            workers = [child for child in children if any("spawn_main" in word for word in child.cmdline())]
        assert len(workers) >= 2
        time.sleep(2)  # they are at work
        process.send_signal(number)
        process.wait(10)
    assert process.returncode != 0
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert alive == []
