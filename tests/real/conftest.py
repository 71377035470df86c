"""What the real-server tests share: skips with their reason, and one drive per server that many checks look at."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest

from gaptop.recording.lines import Batch, Header
from gaptop.recording.reader import open_stream
from tests.fakes.nvml import build
from tests.real import servers
from tests.real.load import Client, Drive, drive
from tests.real.watch import recording, report

ENGINE_TITLE = "VLLM::EngineCore"
SEQUENCE_CAP = 12
KV_BLOCKS = 130


@dataclass(frozen=True, slots=True)
class Watched:
    """A recording of a whole drive, its report, what the client saw, and the server's own last words."""

    path: Path
    report: dict[str, Any]
    drive: Drive
    start_monotonic: float
    metrics: str
    pids: tuple[int, ...]

    def during(self, name: str, kind: str | None = None) -> list[dict[str, Any]]:
        """The valleys that lie at least half inside the named phase."""
        phase = self.drive.phase(name)
        found = []
        for valley in self.report["valleys"]:
            first, last = valley["start_s"], valley["end_s"]
            last = self.report["window"]["seconds"] if last is None else last
            overlap = min(last, phase.end - self.start_monotonic) - max(first, phase.start - self.start_monotonic)
            if overlap > 0.3 and overlap >= 0.5 * (last - first) and kind in (None, valley["kind"]):
                found.append(valley)
        return found

    def mean(self, name: str, key: str, inside: float = 0.0) -> float:
        """A series over the named phase, as gaptop measured it, from so many seconds inside its edges."""
        phase = self.drive.phase(name)
        first, last = (edge - self.start_monotonic for edge in (phase.start + inside, phase.end - inside))
        lines = [line for line in open_stream(self.path) if isinstance(line, Batch) and key in line.values]
        pairs = [pair for line in lines for pair in zip(line.t, line.values[key], strict=True)]
        return fmean(value for t, value in pairs if value is not None and first <= t <= last)


def installed(name: str) -> Path:
    """The folder of an engine in the cache; skips where it was not installed."""
    folder = servers.cache() / name
    if not (folder / ".complete").exists():
        pytest.skip(f"{name} is not in {servers.cache()}; .ci/run (or tests/real/install_*.sh) puts it there")
    return folder


def engine_pid(api_pid: int) -> int:
    """The pid of vLLM's engine core under an API server."""
    for child in psutil.Process(api_pid).children(recursive=True):
        if ENGINE_TITLE in " ".join(child.cmdline()):
            return child.pid
    raise RuntimeError("vLLM runs without an engine core process")


async def quiet(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def stopped(client: Client, pid: int, seconds: float) -> None:
    """Load, and in the middle of it a stopped process, as a debugger or a frozen container leaves it.

    The requests are short, so that the engine runs dry behind the stopped front end.
    """
    load = asyncio.create_task(client.closed_loop(4, seconds + 4, 40, 40))
    await asyncio.sleep(2)
    os.kill(pid, signal.SIGSTOP)
    try:
        await client.phase("stopped", lambda: quiet(seconds))
    finally:
        os.kill(pid, signal.SIGCONT)
    await load


@pytest.fixture(scope="module")
def watched_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """gaptop record, started without naming the server, beside a real vLLM; its engine shows as a GPU."""
    installed(servers.VLLM)
    folder = tmp_path_factory.mktemp("vllm")
    flags = (f"--max-num-seqs={SEQUENCE_CAP}", f"--num-gpu-blocks-override={KV_BLOCKS}")
    with servers.vllm(folder, *flags) as server:
        warm_up(server.url, "vllm")
        engine = engine_pid(server.pid)
        environment = build.environment({"devices": [{"mirror": [engine], "pids": [engine]}]})

        async def script(client: Client) -> None:
            await client.phase("idle", lambda: quiet(3))
            await client.phase("steady", lambda: client.closed_loop(4, 10, 40, 100))
            await client.phase("silence", lambda: quiet(4))
            await client.phase("burst", lambda: client.closed_loop(8, 6, 40, 100))
            await client.phase("long", lambda: long_prompts(client, 1500))
            await client.phase("recovery", lambda: client.closed_loop(4, 5, 40, 100))
            await client.phase("cap", lambda: client.closed_loop(30, 10, 40, 60))
            await client.phase("full", lambda: client.closed_loop(12, 14, 100, 700))
            await stopped(client, server.pid, 7)

        path = folder / "vllm.gaptop"
        with recording(path, environment=environment):
            seen = asyncio.run(drive(server.url, "vllm", script, limit=240))
        metrics = server.get("/metrics")
        yield watched(path, seen, metrics, (server.pid, engine))


@pytest.fixture(scope="module")
def watched_llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """gaptop record beside a real llama-server (the device is the CPU time of its compute threads)."""
    installed(servers.LLAMA)
    folder = tmp_path_factory.mktemp("llama")
    with servers.llama(folder, "--metrics") as server:
        warm_up(server.url, "llamacpp")

        async def script(client: Client) -> None:
            await client.phase("idle", lambda: quiet(3))
            await client.phase("steady", lambda: client.closed_loop(3, 10, 40, 100))
            await client.phase("silence", lambda: quiet(4))
            await client.phase("burst", lambda: client.closed_loop(4, 5, 40, 64))
            await client.phase("long", lambda: long_prompts(client, 1500))
            await client.phase("cap", lambda: client.closed_loop(14, 8, 40, 48))

        path = folder / "llama.gaptop"
        with recording(path):
            seen = asyncio.run(drive(server.url, "llamacpp", script, limit=180))
        metrics = server.get("/metrics")
        yield watched(path, seen, metrics, (server.pid,))


async def long_prompts(client: Client, prompt_tokens: int) -> None:
    """Three decoding clients, and twice, for some seconds, one long prompt after the other among them.

    By the clock and not by number: how long a prefill takes differs by an order of magnitude between machines.
    """

    async def intruder() -> None:
        for _ in range(2):
            await asyncio.sleep(2.5)
            end = time.monotonic() + 3.0
            while time.monotonic() < end:
                await client.one(prompt_tokens, 2)

    await asyncio.gather(client.closed_loop(3, 12, 32, 300), intruder())


def warm_up(url: str, engine: str) -> float:
    """The first requests after a start are slow for reasons of their own; tokens a second that came of them."""

    async def script(client: Client) -> None:
        await client.phase("warm", lambda: client.closed_loop(2, 2, 40, 20))

    seen = asyncio.run(drive(url, engine, script, limit=60))
    time.sleep(1.0)
    warm = seen.phase("warm")
    return seen.tokens / (warm.end - warm.start)


def watched(path: Path, seen: Drive, metrics: str, pids: tuple[int, ...]) -> Watched:
    header = next(line for line in open_stream(path) if isinstance(line, Header))
    with contextlib.suppress(KeyError):
        # Kept for a look at what a run really showed.
        Path(os.environ["GAPTOP_KEEP_RECORDINGS"], path.name).write_bytes(path.read_bytes())
    return Watched(path, report(path), seen, header.start_monotonic_ns / 1e9, metrics, pids)
