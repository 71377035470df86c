"""The demo's faults, played in real time with real threads: what gaptop says of them is what they are.

All of them run beside each other, four at a time, and each test waits for its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gaptop.lab.scenarios import SCENARIOS

SECONDS = "9s"
"""The faults strike at 4 s and are over by 8 s of the simulation, which is 1 to 2 s older than the watching."""
SHORT = 0.5
"""Seconds: what is shorter may be the machine's own, whose cores other tests share."""

BUSY_MACHINE = "CPU contention"
"""What gaptop says instead, rightly, of a thread whose core other processes want."""

PLAYED = {
    "host_gc": "GC",
    "host_grammar": "grammar",
    "host_logging": "logging",
    "host_images": "front end (images)",
    "host_stopped": "front end stopped",
    "host_gil": "lock or GIL wait | front end (detokenize)",
    "blocking_copy": "blocking copy",
    "remote_kv": "remote KV",
    "adapter_load": "adapter load",
    "graph_capture": "graph capture",
    "power_cap": "clock-event bits",
    "co_tenant": "co-tenant",
    "wedge": "spin or wedge: busy at lower power",
    "host_schedule/vllm-0.8": "scheduling",
    "wedge/llamacpp": "spin or wedge: busy at lower power",
    "host_oversubscribed": "front end (detokenize)",  # last: it takes a core that the others need
}
"""Scenario and dialect to the detail of the verdict: one of these."""

Play = Callable[[str], dict[str, Any]]


def play(case: str) -> dict[str, Any]:
    """The report of one run of ``gaptop demo``."""
    name, _, dialect = case.partition("/")
    command = [sys.executable, "-m", "gaptop", "demo", name, "--for", SECONDS, "--json"]
    if dialect:
        command += ["--dialect", dialect]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def report_of() -> Iterator[Play]:
    """All runs begin with the first test; a test that is run again plays anew."""
    with ThreadPoolExecutor(4) as pool:
        begun: dict[str, Future[dict[str, Any]]] = {case: pool.submit(play, case) for case in PLAYED}
        yield lambda case: begun.pop(case).result() if case in begun else play(case)
        for future in begun.values():
            future.cancel()


@pytest.mark.parametrize("case", PLAYED)
def test_a_fault_of_the_demo_is_called_what_it_is(case: str, report_of: Play) -> None:
    report = report_of(case)
    until = report["window"]["start_s"] + report["window"]["seconds"]
    valleys = [each for each in report["valleys"] if (each["end_s"] or until) - each["start_s"] >= SHORT]
    assert {each["cause"] for each in valleys} == {*SCENARIOS[case.split("/")[0]].causes}
    assert valleys[0]["detail"] in (*PLAYED[case].split(" | "), BUSY_MACHINE)
