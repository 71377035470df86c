"""gaptop beside a real server: ``gaptop record`` as people run it, and the report of its file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gaptop.recording.lines import Batch
from gaptop.recording.reader import OpenError, open_stream

WANTED: Final = frozenset({"metrics", "process"})
"""What a recording reads of the server and of the host when it is under way."""
BEGINS_S: Final = 20.0
"""Patience for that: 2 s on a machine of its own, 6 s were seen on a crowded one."""


def gaptop(*arguments: str, environment: Mapping[str, str] | None = None, timeout: float = 60.0) -> Any:
    """Run gaptop to its end; a subprocess.CompletedProcess with text output."""
    return subprocess.run(
        [sys.executable, "-m", "gaptop", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(environment or {})},
    )


@contextlib.contextmanager
def recording(
    path: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = ("gaptop", "record"),
) -> Iterator[None]:
    """Record while the body runs, from its first readings and 2 s on; ended as people end it, with ctrl+c."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "-o", str(path), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        end = time.monotonic() + BEGINS_S
        while process.poll() is None and not heard(path) >= WANTED and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(2.0)
        if process.poll() is not None:
            raise RuntimeError(f"gaptop record ended at once: {process.communicate()[1]}")
        yield
        time.sleep(3.0)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def heard(path: Path) -> set[str]:
    """The kinds of sources that a recording has readings of by now; it may not have begun yet."""
    try:
        return {line.src.partition("/")[0] for line in open_stream(path) if isinstance(line, Batch)}
    except OpenError:
        return set()


def report(path: Path) -> dict[str, Any]:
    """The JSON report of a recording."""
    done = gaptop("report", str(path), "--json")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    parsed = json.loads(done.stdout)
    assert isinstance(parsed, dict)
    return parsed


def between(report_: Mapping[str, Any], start: float, end: float, start_monotonic: float) -> Sequence[dict[str, Any]]:
    """The report's valleys that lie mostly inside [start, end] (CLOCK_MONOTONIC seconds)."""
    inside = []
    for valley in report_["valleys"]:
        first = valley["start_s"] + start_monotonic
        last = (valley["end_s"] if valley["end_s"] is not None else report_["window"]["seconds"]) + start_monotonic
        overlap = min(last, end) - max(first, start)
        if overlap > 0 and overlap >= 0.5 * (last - first):
            inside.append(valley)
    return inside
