"""One real vLLM whose host is held up in several known ways, one after the other, with gaptop beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from gaptop.recording.lines import Header
from gaptop.recording.reader import open_stream
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import ThreadId
from gaptop_collectors.host.activities import load_activities
from tests.real import servers
from tests.real.conftest import engine_pid, quiet, warm_up
from tests.real.forward import ForwardDevice
from tests.real.load import PENALTIES, Client, Drive, drive
from tests.real.watch import recording, report

CLIENTS: Final = 6
WORDS: Final = 200_000
"""A prompt that takes some tenths of a second to tokenise; vLLM cuts it afterwards (truncate_prompt_tokens)."""

FIELDS: Final = 1500
"""Of a JSON schema whose grammar takes some tenths of a second to compile."""

BURNERS: Final = 4
_EDGE: Final = 1.0
"""Seconds at a phase's edges that are left out: requests under way, windows, and slices of half a second."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A recording of the whole drive, read; times are seconds of the stream."""

    path: Path
    report: dict[str, Any]
    drive: Drive
    timeline: Timeline
    began: float
    """The stream's start on CLOCK_MONOTONIC."""
    api: int
    engine: int
    waited: float
    """The share of the time with burners in which the engine's main thread waited for its core, by the kernel."""

    def span(self, name: str) -> tuple[float, float]:
        """A phase without its edges."""
        phase = self.drive.phase(name)
        return phase.start - self.began + _EDGE, phase.end - self.began - _EDGE

    def shares(self, pid: int, start: float, end: float) -> dict[int, dict[str, float]]:
        """What each thread of a process did, by activity."""
        found = {}
        for thread in self.timeline.threads(f"threads/{pid}"):
            seconds = self.timeline.shares(thread, start, end)
            found[thread.tid] = {activity: took / (end - start) for activity, took in seconds.items()}
        return found

    def main(self, name: str) -> dict[str, float]:
        """What the engine's main thread did in a phase."""
        return self.shares(self.engine, *self.span(name))[self.engine]

    def functions(self, start: float, end: float) -> dict[str, float]:
        """Seconds by innermost function of the engine's main thread."""
        took: dict[str, float] = {}
        for item in self.timeline.spans(ThreadId(f"threads/{self.engine}", self.engine), start, end):
            frames = self.timeline.frames(item.stack)
            if frames:
                name = frames[-1][0].rpartition(".")[2]
                took[name] = took.get(name, 0.0) + min(item.end, end) - max(item.start, start)
        return took

    def causes(self, start: float, end: float) -> dict[str, float]:
        """Seconds of each cause inside a range, by the segments of all valleys."""
        seconds: dict[str, float] = {}
        for valley in self.report["valleys"]:
            for part in valley["segments"]:
                overlap = min(part["end_s"], end) - max(part["start_s"], start)
                if overlap > 0.0:
                    seconds[part["cause"]] = seconds.get(part["cause"], 0.0) + overlap
        return seconds

    def overlapping(self, start: float, end: float) -> list[dict[str, Any]]:
        """Valleys that lie in a range, or reach into it: on a crowded machine several phases may be one valley."""
        valleys = self.report["valleys"]
        return [item for item in valleys if item["start_s"] < end and (item["end_s"] or self.last) > start]

    def own(self, start: float, end: float) -> list[dict[str, Any]]:
        """Valleys that lie in a range for half of their length at least. Where a crowded machine made one valley of
        several phases, its detail is that of the longest, and only its segments speak of the others."""
        found = []
        for valley in self.overlapping(start, end):
            first, last = valley["start_s"], valley["end_s"] or self.last
            if min(last, end) - max(first, start) >= 0.5 * (last - first):
                found.append(valley)
        return found

    @property
    def last(self) -> float:
        seconds = self.report["window"]["seconds"]
        assert isinstance(seconds, float)
        return seconds


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[Beside]:
    """Serve, drive, record and read; the caches of the server's compilers are empty at the start."""
    notes, feed, garbage = folder / "forward", folder / "feed.jsonl", folder / "garbage"
    notes.touch()
    environment = {
        "PYTHONPATH": str(_plugin(folder)),
        "GAPTOP_FORWARD": str(notes),
        "GAPTOP_GARBAGE": str(garbage),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    with contextlib.ExitStack() as stack:
        with mock.patch.dict(os.environ, environment):
            server = stack.enter_context(servers.vllm(folder))
        warm_up(server.url, "vllm")
        engine = engine_pid(server.pid)
        path = folder / "vllm-host.gaptop"
        stack.enter_context(ForwardDevice(notes, feed))
        command = ("tests.real.record_forward", str(feed))
        with recording(path, server.url, "--no-gpu", "--threads=fast", command=command):
            waited: list[float] = []
            seen = asyncio.run(
                drive(server.url, "vllm", lambda client: _script(client, engine, garbage, waited), limit=400)
            )
        yield _read(path, seen, server.pid, engine, waited[0])


async def _script(client: Client, engine: int, garbage: Path, waited: list[float]) -> None:
    await client.phase("steady", lambda: client.closed_loop(CLIENTS, 8, 40, 100))
    await client.phase("silence 1", lambda: quiet(4))
    await client.phase("tokenize", lambda: _long_texts(client, 6))
    # Between the two, so that the device's rise parts their valleys.
    await client.phase("recovery", lambda: client.closed_loop(CLIENTS, 4, 40, 100))
    await client.phase("silence 2", lambda: quiet(4))
    await client.phase("grammar", lambda: _schemas(client, 7))
    await client.phase("silence 3", lambda: quiet(4))
    await client.phase("penalties", lambda: client.closed_loop(CLIENTS, 7, 40, 100, _penalties))
    await client.phase("silence 4", lambda: quiet(4))
    await _meanwhile(client, "burners", 6, _burners(engine, waited))
    await client.phase("silence 5", lambda: quiet(4))
    await _meanwhile(client, "garbage", 4, _garbage(garbage, ""))
    await client.phase("silence 6", lambda: quiet(4))
    await _meanwhile(client, "watched garbage", 4, _garbage(garbage, "debug"))
    await client.phase("silence 7", lambda: quiet(4))
    # The last one: what is compiled once stays compiled.
    await client.phase("around compiling", lambda: _logprobs(client, 14))
    await client.phase("silence 8", lambda: quiet(4))


async def _long_texts(client: Client, seconds: float) -> None:
    texts = [client.text(WORDS) for _ in range(CLIENTS)]

    def options() -> dict[str, object]:
        return {"prompt": texts[client.drive.sent % CLIENTS], "truncate_prompt_tokens": 100}

    await client.closed_loop(CLIENTS, seconds, 0, 20, options)


async def _schemas(client: Client, seconds: float) -> None:
    def options() -> dict[str, object]:
        return {"structured_outputs": {"json": client.schema(FIELDS)}, "ignore_eos": False}

    await client.closed_loop(CLIENTS, seconds, 40, 20, options)


def _penalties() -> dict[str, object]:
    return {**PENALTIES, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 3}


async def _logprobs(client: Client, seconds: float) -> None:
    """Log probabilities are gathered by a function that torch compiles at its first use, all requests waiting."""
    load = asyncio.create_task(client.closed_loop(CLIENTS, seconds, 40, 100))
    await asyncio.sleep(2.0)
    await client.phase("compiling", lambda: client.one(40, 1, lambda: {"logprobs": 5}))
    await load


async def _meanwhile(client: Client, name: str, seconds: float, harm: contextlib.AbstractContextManager[None]) -> None:
    """A named phase in which harm is done, inside a steady load."""

    async def harmed() -> None:
        with harm:
            await asyncio.sleep(seconds)

    load = asyncio.create_task(client.closed_loop(CLIENTS, seconds + 2.5, 40, 100))
    await asyncio.sleep(1.5)
    await client.phase(name, harmed)
    await load


@contextlib.contextmanager
def _burners(pid: int, waited: list[float]) -> Iterator[None]:
    """A process and some burners on one core. Each burner has a session of its own: the kernel shares a core between
    sessions first."""
    before = {int(task): os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{pid}/task")}
    core = {max(before[pid])}
    burn = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    started = [subprocess.Popen([sys.executable, "-c", burn], start_new_session=True) for _ in range(BURNERS)]
    try:
        for burner in started:
            os.sched_setaffinity(burner.pid, core)
        for task in before:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(task, core)
        begun, before_ns = time.monotonic_ns(), _waited_ns(pid)
        yield
        waited.append((_waited_ns(pid) - before_ns) / (time.monotonic_ns() - begun))
    finally:
        for burner in started:
            burner.kill()
            burner.wait()
        for task, cores in before.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(task, cores)


def _waited_ns(pid: int) -> int:
    """How long a process's main thread has waited for a core."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1])


@contextlib.contextmanager
def _garbage(path: Path, how: str) -> Iterator[None]:
    partial = path.with_suffix(".partial")
    partial.write_text(how)
    partial.rename(path)
    try:
        yield
    finally:
        path.unlink()


def _plugin(folder: Path) -> Path:
    """A folder for PYTHONPATH in which vLLM finds the plug-in as an installed one."""
    home = folder / "plugin"
    stated = home / "gaptop_real-1.dist-info"
    stated.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("vllm_plugin.py"), home / "gaptop_real.py")
    (stated / "METADATA").write_text("Metadata-Version: 2.1\nName: gaptop-real\nVersion: 1\n")
    (stated / "entry_points.txt").write_text("[vllm.general_plugins]\ngaptop_real = gaptop_real:register\n")
    return home


def _read(path: Path, seen: Drive, api: int, engine: int, waited: float) -> Beside:
    with contextlib.suppress(KeyError):
        # Kept for a look at what a run really showed.
        Path(os.environ["GAPTOP_KEEP_RECORDINGS"], path.name).write_bytes(path.read_bytes())
    timeline = Timeline(load_activities().classify)
    began = 0.0
    for line in open_stream(path):
        if isinstance(line, Header):
            began = line.start_monotonic_ns / 1e9
        timeline.apply(line)
    return Beside(path, report(path), seen, timeline, began, api, engine, waited)
