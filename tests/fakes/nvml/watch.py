"""Run NvmlDevices in this process as its runner would, and print each message as a JSON line.

    python -m tests.fakes.nvml.watch [SERVER_PID ...]

It ends when its standard input does. A line is {"is": class name, ...fields}; a CollectorError ends the run as
{"is": "CollectorError", "says", "state", "retry"}.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from gaptop_collectors.collector import CollectorError, Message
from gaptop_collectors.devices.nvml import NvmlDevices
from gaptop_collectors.target import Processes, ServerProcess


class Pids(Processes):
    """A server whose processes are given."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [ServerProcess(pid, "engine", "engine", True, 0) for pid in pids]

    def current(self) -> Sequence[ServerProcess]:
        return self._processes

    def why_empty(self) -> str:
        return ""


def show(messages: Sequence[Message]) -> None:
    for message in messages:
        print(json.dumps({"is": type(message).__name__, **asdict(message)}), flush=True)


@contextmanager
def watched(pids: Sequence[int], state: Path | None = None) -> Iterator[NvmlDevices]:
    """The devices, not yet opened; closed at the end. A CollectorError ends the block and is printed."""
    devices = NvmlDevices(Pids(pids) if pids else None, state=state)
    try:
        yield devices
    except CollectorError as error:
        print(json.dumps({"is": "CollectorError", "says": error.says, "state": error.state, "retry": error.retry}))
    finally:
        devices.close()


def main() -> None:
    with watched([int(pid) for pid in sys.argv[1:]]) as devices:
        show(devices.open())
        due = time.monotonic() + devices.period
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            show(devices.sample())
            due = max(due + devices.period, time.monotonic())


if __name__ == "__main__":
    main()
