"""The front-end process: HTTP, the tokeniser's thread, and the handling of what the engine process sends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

from aiohttp import web
from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, CollectorRegistry, ProcessCollector

from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.renderers.base import Renderer
from gaptop.lab.dialect.vllm.v1.engine.async_llm import AsyncLLM
from gaptop.lab.dialect.vllm.v1.engine.core_client import AsyncMPClient
from gaptop.lab.dialect.vllm.v1.metrics.loggers import PrometheusStatLogger
from gaptop.lab.live import engine_process
from gaptop.lab.live.http import MODEL, VERSION, Endpoints
from gaptop.lab.live.plan import FrontPlan, LiveClock
from gaptop.lab.scenarios import SCENARIOS

LOOK_AHEAD = 0.5
"""How far ahead of real time the tokeniser's next work is looked for (seconds)."""


class FrontProcess:
    """One run: ``run`` returns when it is told to stop, or when the engine process ends."""

    def __init__(self, scenario: str, seed: int, port: int, folder: Path) -> None:
        self._scenario = scenario
        self._seed = seed
        self._port = port
        self._feed = folder / "device.jsonl"
        self._config = SCENARIOS[scenario].engine
        self._plan = FrontPlan(Simulation(SCENARIOS[scenario], seed))
        self._clock = LiveClock(monotonic_ns())
        self._engine: subprocess.Popen[bytes] | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until stopped; leaves nothing behind."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        # SIGUSR1 comes when the thread that started us ends, which is not always the end of our parent.
        loop.add_signal_handler(signal.SIGUSR1, self._stop_if_orphan, os.getppid())
        self._watch_input(loop)
        registry = CollectorRegistry()
        for collector in (ProcessCollector(registry=None), PLATFORM_COLLECTOR, GC_COLLECTOR):
            registry.register(collector)
        logger = PrometheusStatLogger(registry, MODEL, self._config)
        runner = web.AppRunner(Endpoints(registry, self._config, self._engine_alive).application(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        try:
            await site.start()
            await self._serve(runner.addresses[0][1], logger)
        finally:
            await runner.cleanup()
            self._feed.unlink(missing_ok=True)

    async def _serve(self, port: int, logger: PrometheusStatLogger) -> None:
        self._engine = self._start_engine()
        tasks = []
        try:
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._engine.stdout)
            client = AsyncMPClient(reader)
            _, self._clock.origin_ns = await client.get_output_async()  # message 0: it is up
            print(json.dumps(self._ready(port, self._engine.pid)), flush=True)
            handler = AsyncLLM(client, logger, self._plan.step, self._moved)
            tasks = [
                asyncio.create_task(each) for each in (handler.output_handler(), self._tokenize(), self._stop.wait())
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                raise ChildProcessError("the simulated engine process has ended")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._engine.kill()
            self._engine.wait()

    def _start_engine(self) -> subprocess.Popen[bytes]:
        self._feed.touch()
        command = [sys.executable, "-m", engine_process.__name__, self._scenario, str(self._seed), str(self._feed)]
        pipe = subprocess.PIPE
        return subprocess.Popen([*command, str(os.getpid())], stdin=pipe, stdout=pipe, bufsize=0)

    async def _tokenize(self) -> None:
        """Play the tokeniser's work in its own thread."""
        loop = asyncio.get_running_loop()
        renderer = Renderer()
        pool = ThreadPoolExecutor(1)
        try:
            while True:
                now = (monotonic_ns() - self._clock.origin_ns) / 1e9
                span = self._plan.tokenizing(now + LOOK_AHEAD)
                if span is None:
                    await asyncio.sleep(LOOK_AHEAD / 2)
                    continue
                await asyncio.sleep(max(self._clock.to_ns(span.start) - monotonic_ns(), 0) / 1e9)
                await loop.run_in_executor(pool, renderer._tokenize_prompt, self._clock.to_ns(span.end))
        finally:
            pool.shutdown(wait=False)

    def _ready(self, port: int, engine_pid: int) -> dict[str, object]:
        processes = [
            {"pid": os.getpid(), "role": "api", "name": "LAB::APIServer"},
            {"pid": engine_pid, "role": "engine", "name": engine_process.NAME},
        ]
        return {
            "url": f"http://127.0.0.1:{port}",
            "feed": str(self._feed),
            "processes": processes,
            "model": MODEL,
            "scenario": self._scenario,
            "engine": "vllm",
            "version": VERSION,
            "sequence_cap": self._config.max_num_seqs,
        }

    def _engine_alive(self) -> bool:
        return self._engine is not None and self._engine.poll() is None

    def _moved(self, origin_ns: int) -> None:
        self._clock.origin_ns = origin_ns

    def _stop_if_orphan(self, parent: int) -> None:
        if os.getppid() != parent:
            self._stop.set()

    def _watch_input(self, loop: asyncio.AbstractEventLoop) -> None:
        """End when standard input closes: whoever started us has gone."""

        def readable() -> None:
            if not os.read(0, 4096):
                loop.remove_reader(0)
                self._stop.set()

        try:
            loop.add_reader(0, readable)
        except PermissionError:  # a regular file cannot be waited for, and nobody is behind it
            self._stop.set()
