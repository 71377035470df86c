"""The front end: HTTP, the tokenisers' threads, and the handling of what the engine sends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

from aiohttp import web

from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.renderers.base import Renderer
from gaptop.lab.dialect.vllm.v1.engine.async_llm import AsyncLLM
from gaptop.lab.dialect.vllm.v1.engine.core_client import AsyncMPClient
from gaptop.lab.fast.view import Dialect
from gaptop.lab.live import engine_process, other_process
from gaptop.lab.live.backend import Backend
from gaptop.lab.live.engine import others
from gaptop.lab.live.http import MODEL
from gaptop.lab.live.plan import FrontPlan, LiveClock
from gaptop.lab.live.surface import VERSIONS, surface_of
from gaptop.lab.scenarios import SCENARIOS

LOOK_AHEAD = 0.5
"""How far ahead of real time the tokeniser's next work is looked for (seconds)."""


class FrontProcess:
    """One run: ``run`` returns when it is told to stop, or when the engine ends. ``start`` starts the engine."""

    def __init__(
        self, scenario: str, seed: int, port: int, folder: Path, dialect: Dialect, start: Callable[[Path], Backend]
    ) -> None:
        self._scenario = scenario
        self._port = port
        self._dialect: Dialect = dialect
        self._start = start
        self._feed = folder / "device.jsonl"
        self._config = SCENARIOS[scenario].engine
        self._surface = surface_of(dialect, self._config, self._engine_alive)
        self._plan = FrontPlan(Simulation(SCENARIOS[scenario], seed), self._surface.launched)
        self._clock = LiveClock(monotonic_ns())
        self._engine: Backend | None = None
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parent = os.getppid()

    def take_signals(self) -> None:
        """Stop at the usual signals; call it in the main thread, before ``run``."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._told(self._stop.set))
        # SIGUSR1 comes when the thread that started us ends, which is not always the end of our parent.
        signal.signal(signal.SIGUSR1, lambda *_: self._told(self._stop_if_orphan))

    async def run(self) -> None:
        """Serve until stopped; leaves nothing behind."""
        self._loop = asyncio.get_running_loop()
        self._watch_input(self._loop)
        runner = web.AppRunner(self._surface.application(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        try:
            await site.start()
            await self._serve(runner.addresses[0][1])
        finally:
            await runner.cleanup()
            self._feed.unlink(missing_ok=True)

    async def _serve(self, port: int) -> None:
        self._feed.touch()
        self._engine = self._start(self._feed)
        tasks = []
        try:
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._engine.messages)
            client = AsyncMPClient(reader)
            beside = []
            number, value = await client.get_output_async()
            while number < 0:  # each tells the pid of a process beside the engine's
                beside.append(value)
                number, value = await client.get_output_async()
            self._clock.origin_ns = value  # message 0: it is up
            print(json.dumps(self._ready(port, self._engine.pid, beside)), flush=True)
            holds = self._config.single_process
            handler = AsyncLLM(client, self._surface, self._plan.step, self._moved, holds_interpreter=holds)
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
            self._engine.stop()

    async def _tokenize(self) -> None:
        """Play the tokenisers' work in their own threads."""
        loop = asyncio.get_running_loop()
        renderer = Renderer()
        pool = ThreadPoolExecutor(self._config.tokenizer_workers)
        try:
            while True:
                now = (monotonic_ns() - self._clock.origin_ns) / 1e9
                span = self._plan.tokenizing(now + LOOK_AHEAD)
                if span is None:
                    await asyncio.sleep(LOOK_AHEAD / 2)
                    continue
                await asyncio.sleep(max(self._clock.to_ns(span.start) - monotonic_ns(), 0) / 1e9)
                loop.run_in_executor(pool, renderer.render_prompts, span.phase, self._clock.to_ns(span.end))
        finally:
            pool.shutdown(wait=False)

    def _ready(self, port: int, engine_pid: int, beside: list[int]) -> dict[str, object]:
        return {
            "url": f"http://127.0.0.1:{port}",
            "feed": str(self._feed),
            "processes": self._processes(engine_pid, beside),
            "model": MODEL,
            "scenario": self._scenario,
            "engine": "llamacpp" if self._dialect == "llamacpp" else "vllm",
            "version": VERSIONS[self._dialect],
            "sequence_cap": self._config.max_num_seqs,
        }

    def _processes(self, engine_pid: int, beside: list[int]) -> list[dict[str, object]]:
        if engine_pid == os.getpid():
            return [{"pid": engine_pid, "role": "server", "name": "LAB::Server"}]
        return [
            {"pid": os.getpid(), "role": "api", "name": "LAB::APIServer"},
            {"pid": engine_pid, "role": "engine", "name": engine_process.NAME},
            *(
                {"pid": pid, "role": thread.partition("/")[0], "name": other_process.name_of(thread)}
                for pid, thread in zip(beside, others(self._config), strict=True)
            ),
        ]

    def _engine_alive(self) -> bool:
        return self._engine is not None and self._engine.alive()

    def _moved(self, origin_ns: int) -> None:
        self._clock.origin_ns = origin_ns

    def _told(self, what: Callable[[], object]) -> None:
        """A signal has come, maybe in another thread than the loop's."""
        if self._loop is None:
            raise SystemExit(0)
        self._loop.call_soon_threadsafe(what)

    def _stop_if_orphan(self) -> None:
        if os.getppid() != self._parent:
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
