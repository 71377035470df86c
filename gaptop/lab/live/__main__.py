"""``python -m gaptop.lab.live --scenario NAME [--seed N] [--port N] [--dialect NAME] --dir DIR``: one JSON line on
stdout when ready.

It ends when standard input closes, on SIGTERM, SIGINT or SIGHUP, and with its parent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import get_args

from gaptop.lab.fast.view import Dialect
from gaptop.lab.live.backend import Backend, OwnProcess, SameProcess
from gaptop.lab.live.engine import Engine
from gaptop.lab.live.front_process import FrontProcess
from gaptop.lab.live.prctl import allow_any_tracer, die_with_parent, name_process
from gaptop.lab.scenarios import SCENARIOS

PLAYED = sorted(name for name, scenario in SCENARIOS.items() if scenario.live)


def main() -> int:
    """See the module's text; 2 where it cannot start, or the engine process has died."""
    parser = argparse.ArgumentParser(prog="python -m gaptop.lab.live", description="a simulated LLM server")
    parser.add_argument("--scenario", choices=PLAYED, default="tour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dialect", choices=get_args(Dialect), default="vllm")
    parser.add_argument("--dir", type=Path, required=True, help="folder for the device's feed; made if missing")
    arguments = parser.parse_args()
    die_with_parent(os.getppid(), signal.SIGUSR1)
    # llama-server is one process, and so is a vLLM that was told to be.
    alone = arguments.dialect == "llamacpp" or SCENARIOS[arguments.scenario].engine.single_process
    name_process("LAB::Server" if alone else "LAB::APIServer")
    allow_any_tracer()
    if alone:
        _play_alone(arguments)

    def start(feed: Path) -> Backend:
        return OwnProcess(arguments.scenario, arguments.seed, feed)

    front = FrontProcess(arguments.scenario, arguments.seed, arguments.port, arguments.dir, arguments.dialect, start)
    front.take_signals()
    return _serve(front, arguments.dir)


def _play_alone(arguments: argparse.Namespace) -> None:
    """The engine in the main thread, as llama-server has it, and the front end beside it. Does not return."""
    reading, writing = os.pipe()
    started: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def start(feed: Path) -> Backend:
        started.put(feed)
        return SameProcess(reading)

    front = FrontProcess(arguments.scenario, arguments.seed, arguments.port, arguments.dir, arguments.dialect, start)
    front.take_signals()
    threading.Thread(target=lambda: os._exit(_serve(front, arguments.dir)), name="output_handler", daemon=True).start()
    Engine(arguments.scenario, arguments.seed, started.get(), writing, None).run()


def _serve(front: FrontProcess, folder: Path) -> int:
    """Make the folder, serve, and remove it."""
    made = not folder.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(front.run())
    except (OSError, asyncio.IncompleteReadError) as error:
        print(f"gaptop lab: the simulated server cannot go on: {error}", file=sys.stderr, flush=True)
        return 2
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
