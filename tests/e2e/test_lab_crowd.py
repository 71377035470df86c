"""The live lab's crowd: one core, and nothing left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from gaptop.lab.live.crowd import PROCESSES, Crowd


def children(pid: int) -> list[int]:
    return [
        int(found) for task in Path(f"/proc/{pid}/task").iterdir() for found in (task / "children").read_text().split()
    ]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_shares_one_core_with_the_server_and_gives_it_back() -> None:
    own = threading.get_native_id()
    before = os.sched_getaffinity(own)
    others = set(children(os.getpid()))
    front = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        crowd = Crowd(own, front.pid)
        crowd.gather()
        try:
            crowded = os.sched_getaffinity(own)
            assert len(crowded) == 1
            spinning = set(children(os.getpid())) - others - {front.pid}
            assert len(spinning) == PROCESSES
            assert {tuple(os.sched_getaffinity(pid)) for pid in (*spinning, front.pid)} == {tuple(crowded)}
        finally:
            crowd.leave()
        assert os.sched_getaffinity(own) == os.sched_getaffinity(front.pid) == before
        assert not any(runs(pid) for pid in spinning)
    finally:
        front.kill()
        front.wait()


def test_it_ends_with_a_server_that_was_killed() -> None:
    script = (
        "import threading, time\n"
        "from gaptop.lab.live.crowd import Crowd\n"
        "Crowd(threading.get_native_id(), None).gather()\n"
        "print('gathered', flush=True)\n"
        "time.sleep(30)\n"
    )
    server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout as said:
        assert said.readline() == "gathered\n"
        spinning = children(server.pid)
        assert len(spinning) == PROCESSES
        server.kill()
        server.wait()
    deadline = time.monotonic() + 10.0
    while any(runs(pid) for pid in spinning):
        assert time.monotonic() < deadline, "some of the crowd still spin"
        time.sleep(0.05)
