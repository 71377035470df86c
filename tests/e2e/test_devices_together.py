"""A server that computes on its CPU, on a host whose GPU is another's: both devices are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gaptop.recording.lines import Batch, Health, Line, Source, decode
from tests.fakes.nvml import build

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    try:
        driver = build.environment({"devices": [{"series": [(0.5, 100.0)], "loop": True, "pids": [1]}]})
    except build.NoCompiler as error:
        pytest.skip(str(error))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as computing:
        try:
            process = {"pid": computing.pid, "role": "server", "name": "llama-server"}
            server = {"url": "http://127.0.0.1:1", "engine": "llamacpp", "processes": [process]}
            config = {"servers": [server], "threads": "off", "duration": 3}
            probe = subprocess.Popen(
                [sys.executable, "-P", "-m", "gaptop.probe"],
                env=os.environ | driver,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert probe.stdin is not None
            # Its standard input stays open: the end of that would be the end of the probe.
            probe.stdin.write(json.dumps(config).encode() + b"\n")
            probe.stdin.flush()
            assert probe.stdout is not None
            said = [line for raw in probe.stdout if (line := decode(raw)) is not None]
            probe.communicate(timeout=10)
        finally:
            computing.kill()
    return said


def test_both_are_sources_with_readings(lines: list[Line]) -> None:
    kinds = {line.id: line.entity["kind2"] for line in lines if isinstance(line, Source) and line.kind == "device"}
    assert kinds == {"nvml/GPU-fake-0": "gpu", "cpu/llama-server": "cpu"}
    assert {line.src for line in lines if isinstance(line, Batch) and line.values.get("device.busy")} >= set(kinds)


def test_neither_is_told_to_be_missing(lines: list[Line]) -> None:
    states = {line.src: line.state for line in lines if isinstance(line, Health) and line.collector[:7] == "devices"}
    assert states == {
        "devices.nvml": "ended",
        "devices.cpu": "ended",
        "nvml/GPU-fake-0": "ok",
        "cpu/llama-server": "ok",
    }
