"""Which processes are on a GPU, for finding servers. Asked in a process of its own, for NVML may hang or crash.

``python -m gaptop_collectors.devices.nvml_pids`` prints them, one a line.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Final

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.devices import nvml_start
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_processes import exists

TIMEOUT: Final = 2.0
_MOST: Final = 10_000
"""Pids looked at; a GPU has a handful."""
_COMMAND: Final = (sys.executable, "-P", "-m", "gaptop_collectors.devices.nvml_pids")
"""-P: whatever lies in the working directory, it is not searched for modules."""


def compute_pids(timeout: float = TIMEOUT) -> tuple[int, ...]:
    """The pids that compute on any GPU now, ascending. Comes back within about ``timeout`` seconds and never raises.

    Empty where there is no NVML, where it does not answer, and in a container, where it lists the host's numbers.
    """
    try:
        child = subprocess.Popen(
            _COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return ()
    try:
        told, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # One that hangs inside the driver dies only when that lets go; nobody waits for it.
            child.wait(0.2)
        return ()
    finally:
        if child.stdout is not None:
            child.stdout.close()
    if child.returncode != 0:
        return ()
    pids = sorted({int(word) for word in told.split()[:_MOST] if word.isascii() and word.isdigit()})
    return tuple(pids) if all(exists(pid) for pid in pids) else ()


def _ask() -> set[int]:
    nvml = nvml_start.load()
    count = nvml_start.start(nvml)
    calls, pids = Calls(nvml), set[int]()
    for index in range(count):
        with contextlib.suppress(CallFailed):
            handle = calls(nvml.nvmlDeviceGetHandleByIndex, index)
            pids |= {int(one.pid) for one in calls(nvml.nvmlDeviceGetComputeRunningProcesses, handle)}
    nvml_start.stop(nvml)
    return pids


def _main() -> None:
    try:
        pids = _ask()
    except CollectorError:
        # No GPU can be seen; the screen's own health line says why.
        return
    print("\n".join(map(str, sorted(pids))))


if __name__ == "__main__":
    _main()
