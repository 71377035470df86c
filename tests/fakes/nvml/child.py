"""Start watch.py in a child process with the stand-in library, and read its messages.

Reading goes on until what a test waits for is there, so that a crowded machine only makes it slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.nvml import build

ROOT = Path(__file__).parents[3]
SERIES = [(1.0, 300.0), (0.37, 200.0), (0.0, 60.0), (0.92, 290.0), (0.05, 70.0)]
"""Five windows that can be told apart: (busy, watts)."""
FAKE = "nvml/GPU-fake-0"
Line = dict[str, Any]
Until = Callable[[list[Line]], bool]


def start(
    *devices: Mapping[str, Any],
    without: Sequence[str] = (),
    pids: Sequence[int] = (),
    calls: Path | None = None,
    **config: Any,
) -> subprocess.Popen[str]:
    environment = os.environ | build.environment({**config, "devices": devices}, without=without, calls=calls)
    command = [sys.executable, "-m", "tests.fakes.nvml.watch", *map(str, pids)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)


def read(child: subprocess.Popen[str], until: Until) -> list[Line]:
    """The child's lines until the condition holds or it ends; then it is told to end, and is waited for."""
    assert child.stdin
    assert child.stdout
    lines: list[Line] = []
    late = time.monotonic() + 60
    for text in child.stdout:
        lines.append(json.loads(text))
        if until(lines) or time.monotonic() > late:
            break
    child.stdin.close()
    lines += [json.loads(text) for text in child.stdout]
    child.stdout.close()
    child.wait(timeout=30)
    return lines


def watch(until: Until, *devices: Mapping[str, Any], **how: Any) -> list[Line]:
    child = start(*devices, **how)
    lines = read(child, until)
    assert child.returncode == 0
    return lines


def of(lines: Sequence[Line], kind: str, source: str = FAKE) -> list[Line]:
    return [line for line in lines if line["is"] == kind and line.get("source") == source]


def readings(lines: Sequence[Line], key: str, source: str = FAKE) -> list[tuple[int, float]]:
    return [
        (time_ns, value)
        for batch in of(lines, "Batch", source)
        for time_ns, value in zip(batch["times_ns"], batch["values"].get(key, ()), strict=False)
    ]


def enough(count: int, key: str = "device.busy", source: str = FAKE) -> Until:
    return lambda lines: len(readings(lines, key, source)) >= count
