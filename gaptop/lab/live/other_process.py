"""A process beside the engine's: ``python -m gaptop.lab.live.other_process SCENARIO SEED THREAD PARENT``.

THREAD is the simulation's: a rank's worker, or the engine of a prefill device.

It writes a byte when it is ready. Standard input carries messages of ``core_client``, for the virtual clock's origin,
and closes when the engine process has gone.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading

from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.v1.engine.core import EngineCoreProc
from gaptop.lab.dialect.vllm.v1.engine.core_client import MESSAGE
from gaptop.lab.dialect.vllm.v1.executor.multiproc_executor import WorkerProc
from gaptop.lab.live.plan import FollowingClock, Plan
from gaptop.lab.live.prctl import allow_any_tracer, die_with_parent, name_process
from gaptop.lab.scenarios import SCENARIOS


def name_of(thread: str) -> str:
    """What the process is called."""
    kind, _, which = thread.partition("/")
    return f"LAB::Worker_TP{which}" if kind == "worker" else "LAB::Prefill"


def _follow(clock: FollowingClock) -> None:
    """Take over what the engine says of the clock; exit when it has gone."""
    with selectors.PollSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while True:
            selector.select()
            message = os.read(0, MESSAGE.size)
            if not message:
                os._exit(0)
            clock.origin_ns = MESSAGE.unpack(message)[1]


def main() -> None:
    """See the module's text."""
    scenario, seed, thread, parent = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(int(parent), signal.SIGKILL)
    name_process(name_of(thread))
    allow_any_tracer()
    played = SCENARIOS[scenario]
    os.write(1, b".")
    clock = FollowingClock(MESSAGE.unpack(os.read(0, MESSAGE.size))[1])
    threading.Thread(target=_follow, args=(clock,), name="lab-clock", daemon=True).start()
    plan = Plan(Simulation(played, int(seed)), clock, thread)
    if thread.startswith("worker/"):
        WorkerProc(plan).worker_busy_loop()
    EngineCoreProc(plan, lambda: None).run_busy_loop()


if __name__ == "__main__":
    main()
