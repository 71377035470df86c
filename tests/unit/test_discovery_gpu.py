"""The pids on a GPU, asked of the real binding in a process of its own against the stand-in library."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gaptop_collectors.devices.nvml_pids import compute_pids
from tests.fakes.nvml import build

ASK = "nvmlDeviceGetComputeRunningProcesses_v3"


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        build.library()
    except build.NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def others() -> Iterator[list[int]]:
    running = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    yield [process.pid for process in running]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        process.wait()


def devices(monkeypatch: pytest.MonkeyPatch, *described: dict[str, object], **config: object) -> None:
    for name, value in build.environment({**config, "devices": described}).items():
        monkeypatch.setenv(name, value)


def test_every_gpus_processes(monkeypatch: pytest.MonkeyPatch, others: list[int]) -> None:
    devices(monkeypatch, {"pids": [others[0], os.getpid()]}, {"pids": [others[1]]})
    assert compute_pids() == tuple(sorted([*others, os.getpid()]))


def test_in_a_container_the_numbers_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, {"pids": [os.getpid(), 4_194_000]})
    assert compute_pids() == ()


def test_a_gpu_that_does_not_say_leaves_the_others(monkeypatch: pytest.MonkeyPatch, others: list[int]) -> None:
    devices(monkeypatch, {"pids": [others[0]], "unsupported": ASK}, {"pids": [others[1]]})
    assert compute_pids() == (others[1],)


@pytest.mark.parametrize("init_error", [9, 18, 999])
def test_no_driver_is_no_pids(monkeypatch: pytest.MonkeyPatch, init_error: int) -> None:
    devices(monkeypatch, {"pids": [os.getpid()]}, init_error=init_error)
    assert compute_pids() == ()


def test_a_library_that_hangs_or_crashes_costs_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, {"pids": [os.getpid()], "slow": (ASK, 60_000, 0, 0)})
    begun = time.monotonic()
    assert compute_pids(1.0) == ()
    assert 0.9 < time.monotonic() - begun < 5
    devices(monkeypatch, {"pids": [os.getpid()], "crash": (ASK, 0)})
    assert compute_pids() == ()
