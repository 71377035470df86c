"""A lab and a small server that a test may stop, kill or record."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gaptop.lab.launch import Lab, LabInfo
from tests.fakes import vllm_process
from tests.fakes.nvml import build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These run beside real processes, and a stall of the machine may fail one: it is run once more, and shown so."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


class FakeServer(NamedTuple):
    url: str
    process: subprocess.Popen[str]


@pytest.fixture(scope="session")
def stand_in_nvml() -> None:
    """The stand-in for the driver's library can be built; skips, with the reason, where there is no C compiler."""
    try:
        build.library()
    except build.NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def steady_lab() -> Iterator[LabInfo]:
    """The lab's live server with its load that has no fault."""
    with Lab() as lab:
        yield lab.start("steady")


@pytest.fixture
def fake_server(tmp_path: Path) -> Iterator[Callable[[], FakeServer]]:
    """Starts processes that discovery takes for vLLM servers."""
    program = tmp_path / "vllm"
    program.symlink_to(vllm_process.__file__)
    started: list[subprocess.Popen[str]] = []

    def start() -> FakeServer:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        command = [sys.executable, str(program), "serve", "tiny", "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == f"{port}\n"
        return FakeServer(f"http://127.0.0.1:{port}", process)

    yield start
    for process in started:
        process.kill()
        process.wait()
