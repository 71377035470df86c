"""The engine process: ``python -m gaptop.lab.live.engine_process SCENARIO SEED FEED PARENT``.

Standard input closes when the front end has gone; standard output carries the messages of ``core_client``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from time import monotonic_ns

from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.v1.engine.core import EngineCoreProc
from gaptop.lab.dialect.vllm.v1.engine.core_client import MESSAGE
from gaptop.lab.live.device_feed import DeviceFeed
from gaptop.lab.live.plan import LiveClock, Plan
from gaptop.lab.live.prctl import allow_any_tracer, die_with_parent, name_process
from gaptop.lab.scenarios import SCENARIOS

NAME = "LAB::EngineCore"


class EngineProcess:
    """Wires plan, busy loop and device together."""

    def __init__(self, scenario: str, seed: int, feed: Path) -> None:
        self._clock = LiveClock(monotonic_ns() + 100_000_000)
        self._feed = DeviceFeed(feed, self._clock)
        plan = Plan(Simulation(SCENARIOS[scenario], seed), self._clock, self._feed.add)
        self._core = EngineCoreProc(plan, self._send)
        self._sent = -1

    def run(self) -> None:
        """Until standard input closes."""
        threading.Thread(
            target=self._process_input_sockets, name="Thread-1 (process_input_sockets)", daemon=True
        ).start()
        threading.Thread(target=self._feed.run, name="lab-device", daemon=True).start()
        self._send()
        self._core.run_busy_loop()

    def _send(self) -> None:
        """Message 0 says that we are up, message n that the front end should handle step message n."""
        self._sent += 1
        try:
            os.write(1, MESSAGE.pack(self._sent, self._clock.origin_ns))
        except BrokenPipeError:
            os._exit(0)

    @staticmethod
    def _process_input_sockets() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)


def main() -> None:
    """See the module's text."""
    scenario, seed, feed, parent = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to the front end too, which ends us
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(int(parent), signal.SIGKILL)
    name_process(NAME)
    allow_any_tracer()
    EngineProcess(scenario, int(seed), Path(feed)).run()


if __name__ == "__main__":
    main()
