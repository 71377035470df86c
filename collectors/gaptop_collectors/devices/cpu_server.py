"""Which processes of a server run the model on the CPU, and whether they do so there at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.devices.cpu_threads import opens_gpu
from gaptop_collectors.target import Processes, ServerProcess

SETTLED_S: Final = 60.0
"""Where the host has GPUs, a server this young may still be about to open one."""


def computing(processes: Processes) -> tuple[ServerProcess, ...]:
    """Its workers where there are any, else engine and server; never a front end. Raises CollectorError."""
    current = processes.current()
    chosen = tuple(process for process in current if process.role == "worker")
    chosen = chosen or tuple(process for process in current if process.role in ("engine", "server"))
    if not chosen:
        why = processes.why_empty() or "no process of the server is known to run the model"
        raise CollectorError(f"There is no CPU device: {why.rstrip('.')}.", state="absent")
    return chosen


def refuse_gpu(servers: Sequence[ServerProcess], on_gpu: Callable[[int], bool], proc: Path, dev: Path) -> None:
    """Raises CollectorError unless the server computes on the CPU, as far as can be told."""
    if any(on_gpu(process.pid) for process in servers):
        raise CollectorError("", state="ended")
    if not any((dev / name).exists() for name in ("nvidiactl", "nvidia0", "kfd", "dxg", "nvmap")):
        return
    for process in servers:
        opened = opens_gpu(process.pid, proc)
        if opened:
            raise CollectorError("", state="ended")
        if opened is None:
            raise CollectorError(
                f"This user may not see which devices process {process.pid} has open, so no CPU device is shown on "
                "this host with GPUs: run gaptop as the server's user, or with sudo.",
                state="refused",
            )
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")
        if age < SETTLED_S:
            raise CollectorError(
                "The server is less than a minute old and may still open a GPU, so no CPU device is shown yet; "
                "gaptop looks again by itself.",
                state="absent",
            )
