"""The engine process: ``python -m gaptop.lab.live.engine_process SCENARIO SEED FEED PARENT``.

Standard input closes when the front end has gone; standard output carries the messages of ``core_client``.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
from pathlib import Path

from gaptop.lab.live.engine import Engine
from gaptop.lab.live.prctl import allow_any_tracer, die_with_parent, name_process

NAME = "LAB::EngineCore"


def process_input_sockets() -> None:
    """Exit when standard input closes."""
    with selectors.PollSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while True:
            selector.select()  # a read that sleeps has no frame of its own, and would look like work
            if not os.read(0, 4096):
                os._exit(0)


def main() -> None:
    """See the module's text."""
    scenario, seed, feed, parent = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to the front end too, which ends us
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(int(parent), signal.SIGKILL)
    name_process(NAME)
    allow_any_tracer()
    threading.Thread(target=process_input_sockets, name="Thread-1 (process_input_sockets)", daemon=True).start()
    Engine(scenario, int(seed), Path(feed), 1, int(parent)).run()


if __name__ == "__main__":
    main()
