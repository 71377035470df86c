"""The lab's endpoints, as vLLM has them: with the slash, /metrics/ honours ``name[]``; without it, it does not."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.dialect.vllm.v1.metrics.loggers import PrometheusStatLogger

MODEL = "simulated-8b (lab)"


class Endpoints:
    """``engine_alive`` answers for /health. ``old``: with the metrics of 0.8."""

    def __init__(self, config: EngineConfig, version: str, engine_alive: Callable[[], bool], *, old: bool) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector(registry=None), PLATFORM_COLLECTOR, GC_COLLECTOR):
            self._registry.register(collector)
        self._logger = PrometheusStatLogger(self._registry, MODEL, config, old=old)
        self._config = config
        self._told_version = version
        self._engine_alive = engine_alive

    def record(self, step: StepDone) -> None:
        """Book one message of the engine."""
        self._logger.record(step)

    def launched(self, span: DeviceSpan) -> None:
        """vLLM's metrics move with the engine's messages only."""

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/metrics/", self._some_metrics),
                web.get("/version", self._version),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
            ]
        )
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        return self._exposition(generate_latest(self._registry))

    async def _some_metrics(self, request: web.Request) -> web.Response:
        names = request.query.getall("name[]", [])
        if not names:
            return await self._metrics(request)
        return self._exposition(generate_latest(self._registry.restricted_registry(names)))

    @staticmethod
    def _exposition(body: bytes) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self._told_version})

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "owned_by": "gaptop lab", "max_model_len": self._config.max_model_len}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._engine_alive() else 503)
