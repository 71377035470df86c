"""The engine, whichever process it runs in: its plan, its loop, the devices' feed, and the processes beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

from gaptop.lab.core.events import Condition
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.v1.engine.core import EngineCoreProc
from gaptop.lab.dialect.vllm.v1.engine.core_client import MESSAGE
from gaptop.lab.live.crowd import Crowd
from gaptop.lab.live.device_feed import DeviceFeed
from gaptop.lab.live.plan import LiveClock, Outside, Plan
from gaptop.lab.scenarios import SCENARIOS

OTHER = -1
"""The number of a message that tells the pid of a process of ``others``, in their order."""


def others(config: EngineConfig) -> list[str]:
    """The simulation's threads that have processes of their own beside the engine's."""
    if config.disaggregated:
        return ["engine/prefill"]
    ranks = config.tensor_parallel_size
    return [f"worker/{rank}" for rank in range(ranks if ranks > 1 else 0)]


class Engine:
    """``out`` takes the messages of ``core_client``. ``front``: the process that a scenario may stop; None where it is
    our own."""

    def __init__(self, scenario: str, seed: int, feed: Path, out: int, front: int | None) -> None:
        self._played = SCENARIOS[scenario]
        self._seed = seed
        self._out = out
        self._front = front
        self._others = self._start_others()
        self._clock = LiveClock(monotonic_ns() + 100_000_000)
        faults = {fault.place for fault in self._played.faults}
        self._feed = DeviceFeed(feed, self._clock, self._owners(), tells_foreign="cotenant" in faults)
        plan = Plan(Simulation(self._played, seed), self._clock, outside=self._outside)
        self._core = EngineCoreProc(plan, self._send, captures="graph_capture" in faults)
        self._sent = -1
        self._told_origin = 0

    def run(self) -> None:
        """For ever."""
        threading.Thread(target=self._feed.run, name="lab-device", daemon=True).start()
        for other in self._others:
            self._write(OTHER, other.pid)
        self._send()
        self._core.run_busy_loop()

    def _send(self) -> None:
        """Message 0 says that we are up, message n that the front end should handle step message n."""
        self._sent += 1
        self._write(self._sent, self._clock.origin_ns)
        if self._clock.origin_ns != self._told_origin:
            self._told_origin = self._clock.origin_ns
            for other in self._others:
                assert other.stdin is not None
                other.stdin.write(MESSAGE.pack(self._sent, self._told_origin))

    def _write(self, number: int, value: int) -> None:
        try:
            os.write(self._out, MESSAGE.pack(number, value))
        except BrokenPipeError:
            os._exit(0)

    def _start_others(self) -> list[subprocess.Popen[bytes]]:
        """Returns when they are ready."""
        command = [sys.executable, "-m", "gaptop.lab.live.other_process", self._played.name, str(self._seed)]
        pipe = subprocess.PIPE
        started = [
            subprocess.Popen([*command, thread, str(os.getpid())], stdin=pipe, stdout=pipe, bufsize=0)
            for thread in others(self._played.engine)
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.read(1)
        return started

    def _owners(self) -> list[int]:
        """The process on each device, in the order of the simulation's numbers."""
        pids = [process.pid for process in self._others]
        if self._played.engine.disaggregated:
            pids.append(os.getpid())  # the decode device is the second
        return pids or [os.getpid()]

    def _outside(self, event: Outside) -> None:
        self._feed.add(event)
        if not isinstance(event, Condition):
            return
        if event.what == "stopped" and self._front is not None:
            front = self._front
            self._at(event.start, lambda: os.kill(front, signal.SIGSTOP))
            self._at(event.end, lambda: os.kill(front, signal.SIGCONT))
        elif event.what == "runnable":
            crowd = Crowd(threading.get_native_id(), self._front)
            self._at(event.start, crowd.gather)
            self._at(event.end, crowd.leave)

    def _at(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it then, in a thread of its own."""
        timer = threading.Timer(max((self._clock.to_ns(seconds) - monotonic_ns()) / 1e9, 0.0), do)
        timer.daemon = True
        timer.start()
