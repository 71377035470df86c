"""Ask the stand-in through the unmodified binding, in a child process and in virtual time.

    answer('out = [nv.nvmlDeviceGetName(gpu), code(nv.nvmlDeviceGetFanSpeed, gpu)]', {"name": "A"})

The text is Python. It finds ``nv`` (pynvml, its session open), ``gpu`` (device 0), ``at(seconds)`` (sets the time since
window 0 began; 0 at first), ``code(function, ...)`` (the nvmlReturn_t of a call), ``waiting()`` (threads inside a wait
for an event) and leaves its answer, which must be JSON, in ``out``. With ``virtual=False`` all goes by the real clocks,
and there is no ``at``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fakes.nvml import build
from tests.fakes.nvml.child import ROOT

_BEFORE: Final = """
import ctypes, json, threading, time
import pynvml as nv
from tests.fakes.nvml.clocks import BEGIN_NS, Clocks

clocks = Clocks({}) if virtual else None

def at(seconds):
    clocks.reach(BEGIN_NS + round(seconds * 1e9))

def code(function, *arguments):
    try:
        function(*arguments)
    except nv.NVMLError as error:
        return error.value
    return 0

def waiting():
    return ctypes.CDLL("libnvidia-ml.so.1").gaptop_fake_waiting()

nv.nvmlInit()
gpu = nv.nvmlDeviceGetHandleByIndex(0)
"""
_AFTER: Final = """
print(json.dumps(out))
"""


def answer(
    text: str, *devices: Mapping[str, Any], without: Sequence[str] = (), calls: Path | None = None, **config: Any
) -> Any:
    """What the text leaves in ``out``. Raises RuntimeError with the child's last words when it fails."""
    environment = build.environment({"virtual": True, **config, "devices": devices}, without=without, calls=calls)
    before = f"virtual = {config.get('virtual', True)}{_BEFORE}"
    command = [sys.executable, "-c", f"{before}\n{text}\n{_AFTER}"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the child ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)
