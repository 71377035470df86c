"""``python -m gaptop.lab.live --scenario NAME [--seed N] [--port N] --dir DIR``: one JSON line on stdout when ready.

It ends when standard input closes, on SIGTERM, SIGINT or SIGHUP, and with its parent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from gaptop.lab.live.front_process import FrontProcess
from gaptop.lab.live.prctl import allow_any_tracer, die_with_parent, name_process
from gaptop.lab.scenarios import SCENARIOS


def main() -> int:
    """See the module's text; 2 where it cannot start, or the engine process has died."""
    parser = argparse.ArgumentParser(prog="python -m gaptop.lab.live", description="a simulated LLM server")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="tour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dir", type=Path, required=True, help="folder for the device's feed; made if missing")
    arguments = parser.parse_args()
    die_with_parent(os.getppid(), signal.SIGUSR1)
    name_process("LAB::APIServer")
    allow_any_tracer()
    folder: Path = arguments.dir
    made = not folder.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(FrontProcess(arguments.scenario, arguments.seed, arguments.port, folder).run())
    except (OSError, asyncio.IncompleteReadError) as error:
        print(f"gaptop lab: the simulated server cannot go on: {error}", file=sys.stderr)
        return 2
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
